#include <tandem/comm/world.h>
#include <tandem/model/autocast.h>
#include <tandem/model/files/torch_file.h>
#include <tandem/sync/data_parallel.h>
#include <tandem/sync/mean/power_sgd_compression.h>
#include <tandem/sync/sync_batch_norm.h>
#include <torch/torch.h>

#include <iostream>

using namespace tandem;

// The regression with compressed gradients, forward passes in bfloat16 and batch norm over all ranks.
int main(int argc, char** argv) try {
  const comm::LauncherEnvironment me = comm::launcher_environment();
  comm::World world = comm::open_world(me, {}), statistics = comm::open_world_beside(world, me);
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({4096, 8}), y = x.sum(1, true).tanh();
  torch::nn::Sequential net(torch::nn::Linear(8, 64), sync::SyncBatchNorm(64, *statistics.group), torch::nn::Tanh(),
                            torch::nn::Linear(64, 1));
  sync::DataParallel parallel(net.ptr(), *world.group,
                              {.optimizer = {model::AdamOptions{.lr = 1e-2}},
                               .compression = sync::power_sgd_compression({.rank = 2, .start_step = 20})});
  const int rows = 256 / world.size;  // of each rank in a step
  for (int epoch = 0; epoch < 10; ++epoch) {
    double sum = 0;
    for (int at = world.rank * rows; at < 4096; at += 256) {
      torch::Tensor loss;
      {
        const model::Autocast autocast(model::AutocastOptions{.dtype = at::kBFloat16});
        loss = torch::mse_loss(net->forward(x.slice(0, at, at + rows)), y.slice(0, at, at + rows));
      }
      parallel.backward(loss, rows);
      sum += parallel.step().loss;
    }
    if (world.rank == 0) std::cout << "epoch " << epoch << " loss " << sum / 16 << '\n';
  }
  if (world.rank == 0 && argc > 1) model::save_weights_torch(*net, argv[1]);
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 3;
}
