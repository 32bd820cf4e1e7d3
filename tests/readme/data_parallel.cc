#include <tandem/learner/fit.h>
#include <torch/torch.h>

int main() {
  const torch::Tensor x = torch::randn({4096, 8}), y = x.sum(1, true).tanh();
  const auto build = [] {
    return torch::nn::Sequential(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  };
  const auto loss = [](auto& net, const tandem::learner::ShardBatch& rows) {
    return torch::mse_loss(net.forward(rows["x"]), rows["y"]);  // of one shard's part of a minibatch
  };
  const auto net = tandem::learner::fit({.devices = "cpu:2", .shards = 2}, {{"x", x}, {"y", y}}, build, loss,
                                        [](const auto& epoch) { std::cout << "loss " << epoch.loss << '\n'; });
  torch::save(net, "net.pt");
}
