#include <tandem/device/device_set.h>
#include <tandem/learner/replica_team.h>
#include <torch/torch.h>

using namespace tandem;
using Net = torch::nn::SequentialImpl;

int main() {
  const torch::Tensor x = torch::randn({4096, 8}), y = x.sum(1, true).tanh();
  const auto build = [](const sync::Placement&) {
    return std::make_shared<Net>(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  };
  learner::ReplicaTeam team(sync::place_replicas(device::parse_device_set("cpu:2"), /*shards=*/2),
                            {.optimizer = {model::AdamOptions{.lr = 1e-2}}}, build);
  team.run([&](learner::Member& me) {  // on each replica's thread
    const auto loss = [&](const learner::ShardBatch& rows) {
      const torch::Tensor predicted = dynamic_cast<Net&>(me.replica.module()).forward(rows["x"]);
      return learner::ShardLoss{torch::mse_loss(predicted, rows["y"]), /*weight=*/double(rows.rows)};
    };
    me.learner.batch().load({.columns = {{"x", x}, {"y", y}}}, /*minibatch_rows=*/256, learner::Tail::kDrop);
    for (int epoch = 0; epoch < 10; ++epoch) {
      me.learner.begin_pass(learner::Order::kShuffled);
      for (int b = 0; b < 16; ++b) {
        const auto report = me.learner.step(b, loss, /*lr_factor=*/1.0, /*limits=*/{});
        if (b == 0 && me.group.rank() == 0) std::cout << "loss " << report.step.loss << '\n';
      }
    }
  });
}
