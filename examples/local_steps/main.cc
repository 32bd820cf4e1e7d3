// A loop of one's own over a slow link: each rank makes optimizer steps of its own, and after every 20 of them all go
// on from the mean of their parameters. Ranks may be killed at any time: the others go on, and who is started again
// joins.
//
//     tandem launch --ranks 3 --on-death replace -- local_steps 2000 10
//
// 2000 steps that take 10 ms each. The model learns to tell how far a point is from a circle.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <iostream>
#include <sstream>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/sync/local_steps.h"

namespace {

using namespace tandem;

torch::Tensor distance(const torch::Tensor& points) { return (points.square().sum(1, true).sqrt() - 1).abs(); }

torch::Tensor error_on(torch::nn::Sequential& model, const torch::Tensor& points) {
  return torch::mse_loss(model->forward(points), distance(points));
}

void say(const sync::LocalSteps& local, const std::string& what, double error) {
  std::ostringstream line;  // in one piece: ranks share the terminal
  line << "rank " << local.rank() << " of " << local.size() << " at step " << local.steps() << ": " << what << " "
       << error << '\n';
  std::cout << line.str() << std::flush;
}

void train(std::int64_t steps, std::chrono::milliseconds a_step) {
  torch::nn::Sequential model(torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64), torch::nn::Tanh(),
                              torch::nn::Linear(64, 1));
  torch::set_num_threads(1);  // the ranks share the machine's cores
  sync::LocalRanks ranks;
  ranks.say = [&ranks](const std::string& line) {
    std::cerr << "rank " + std::to_string(ranks.me.rank) + ": " + line + "\n";
  };
  sync::LocalSteps local(model.ptr(), {.every = 20}, ranks);
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  torch::manual_seed(1000 * local.steps() + local.rank());  // points of its own
  while (local.steps() < steps) {
    const torch::Tensor loss = error_on(model, torch::rand({64, 2}) * 4 - 2);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    std::this_thread::sleep_for(a_step);
    local.step(64);
    if (local.steps() % 100 == 0) say(local, "error", loss.item<double>());
  }
  local.finish();
  const torch::NoGradGuard no_grad;
  const torch::Tensor axis = torch::linspace(-2, 2, 41);
  say(local, "finished with error", error_on(model, torch::cartesian_prod({axis, axis})).item<double>());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? std::stoll(argv[1]) : 2000, std::chrono::milliseconds(argc > 2 ? std::stoll(argv[2]) : 0));
    return 0;
  } catch (const ConfigError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
