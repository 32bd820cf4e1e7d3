#include <tandem/comm/world.h>
#include <tandem/sync/data_parallel.h>
#include <torch/torch.h>

#include <iostream>

using namespace tandem;

// The same regression on several processes.
int main() try {
  const comm::World world = comm::open_world(comm::launcher_environment(), {});
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({4096, 8}), y = x.sum(1, true).tanh();
  torch::nn::Sequential net(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  sync::DataParallel parallel(net.ptr(), *world.group);
  torch::optim::Adam optimizer(net->parameters(), /*lr=*/1e-2);
  const int rows = 256 / world.size;  // of each rank in a step; the last rank takes those that are left, too
  const int mine = world.rank + 1 < world.size ? rows : 256 - rows * world.rank;
  if (world.rank == 0) std::cout << world.description << "\na step has 256 rows, " << rows << " of each rank\n";
  for (int epoch = 0; epoch < 10; ++epoch) {
    double sum = 0;
    for (int at = world.rank * rows; at < 4096; at += 256) {
      const torch::Tensor loss = torch::mse_loss(net->forward(x.slice(0, at, at + mine)), y.slice(0, at, at + mine));
      parallel.backward(loss, mine);
      sum += parallel.average().loss;
      optimizer.step();
    }
    if (world.rank == 0) std::cout << "epoch " << epoch << " loss " << sum / 16 << '\n';
  }
  parallel.finish();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 3;
}
