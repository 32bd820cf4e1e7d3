// Question: what share of a training step is spent on finding mistakes that would train ranks apart?
//
//     guards_bench [--smoke]
//
// An MLP on 8 rows, one rank and one thread, SGD by sync::DataParallel. Steps are made in turns as they are ("once")
// and with the guards of a pass made once more ("twice"): the comparison of the module with what was bound, and the
// seal on its gradients. "guards" is what they take by themselves, per step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <utility>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::bench {
namespace {

constexpr int kInputs = 64, kOutputs = 4, kRows = 8, kWarmUp = 10;

struct Shape {
  const char* name;
  int width, hidden, steps;
};

torch::nn::Sequential make_net(const Shape& shape) {
  torch::nn::Sequential net;
  for (int layer = 0; layer <= shape.hidden; ++layer) {
    net->push_back(torch::nn::Linear(layer == 0 ? kInputs : shape.width, shape.width));
    net->push_back(torch::nn::Tanh());
  }
  net->push_back(torch::nn::Linear(shape.width, kOutputs));
  return net;
}

void make_guards(model::FlatParameters& parameters) {
  parameters.require_same_module();
  parameters.seal();
  parameters.require_seal();
}

void report(const Shape& shape, const char* contender, std::vector<double> seconds) {
  const std::size_t count = seconds.size();
  const Samples samples(std::move(seconds));
  print({.case_name = concat(shape.name, " parameters"),
         .contender = contender,
         .unit = "us",
         .value = 1e6 * samples.quantile(0.5),
         .p99 = 1e6 * samples.quantile(0.99),
         .samples = count});
}

void time(const Shape& shape) {
  torch::manual_seed(1);
  const at::Tensor x = at::randn({kRows, kInputs}), y = at::randn({kRows, kOutputs});
  const auto group = std::move(comm::make_local_group(1).front());
  torch::nn::Sequential net = make_net(shape);
  sync::DataParallel parallel(net.ptr(), *group, {.optimizer = {model::SgdOptions{.lr = 1e-3}}});
  std::vector<double> once, twice, guards;
  for (int step = -kWarmUp; step < 2 * shape.steps; ++step) {
    const bool again = step % 2 != 0;
    const Clock::time_point start = Clock::now();
    parallel.backward((net->forward(x) - y).square().mean(), kRows);
    if (again) make_guards(parallel.replica().parameters());
    parallel.step();
    if (step >= 0) (again ? twice : once).push_back(seconds_since(start));
    if (step < 0) continue;
    const Clock::time_point alone = Clock::now();
    make_guards(parallel.replica().parameters());
    guards.push_back(seconds_since(alone));
  }
  report(shape, "once", std::move(once));
  report(shape, "twice", std::move(twice));
  report(shape, "guards", std::move(guards));
}

int run(Size size) {
  at::set_num_threads(1);
  std::vector<Shape> shapes{{"1.1M", 512, 4, 300}, {"10.6M", 1024, 10, 30}};
  if (size == Size::kSmoke) shapes = {{"0.1M", 288, 1, 3}};
  for (const Shape& shape : shapes) time(shape);
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
