#include <torch/torch.h>

#include <iostream>

// A regression that one process trains.
int main() {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({4096, 8}), y = x.sum(1, true).tanh();
  torch::nn::Sequential net(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  torch::optim::Adam optimizer(net->parameters(), /*lr=*/1e-2);
  for (int epoch = 0; epoch < 10; ++epoch) {
    double sum = 0;
    for (int at = 0; at < 4096; at += 256) {
      const torch::Tensor loss = torch::mse_loss(net->forward(x.slice(0, at, at + 256)), y.slice(0, at, at + 256));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      sum += loss.item<double>();
    }
    std::cout << "epoch " << epoch << " loss " << sum / 16 << '\n';
  }
}
