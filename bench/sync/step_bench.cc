// Question: how much longer does a training step take when several ranks train together than when each trains alone?
//
//     tandem launch --ranks 2 -- step_bench [--smoke]
//
// The environment variable STEP_BENCH_ENCRYPT=all encrypts what goes between hosts, gradients, too (--encrypt all).
//
// An MLP on 8 rows, one thread a rank, SGD: sync::DataParallel over all ranks, against the same over a group of one, on
// all ranks at the same time. Rank 0 prints the difference of the medians, what a step takes from the instant on at
// which all ranks have their first bucket, before which there is no sum on the wire that computing could be hidden
// behind, and what the sums of the gradients take when nothing is computed: all buckets started at once. All ranks must
// end with the same bits, and the mean must be that of all ranks. They read one clock: all run on this machine.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/world.h"
#include "tandem/comm/world_flags.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::bench {
namespace {

constexpr int kInputs = 64, kOutputs = 4, kRows = 8, kRepeats = 3, kWarmUp = 10;

// The networks of bench/peers/ddp_step.py.
struct Shape {
  const char* name;
  int width, hidden, steps;
};

std::shared_ptr<torch::nn::SequentialImpl> make_net(const Shape& shape) {
  auto net = std::make_shared<torch::nn::SequentialImpl>();
  for (int layer = 0; layer <= shape.hidden; ++layer) {
    net->push_back(torch::nn::Linear(layer == 0 ? kInputs : shape.width, shape.width));
    net->push_back(torch::nn::Tanh());
  }
  net->push_back(torch::nn::Linear(shape.width, kOutputs));
  return net;
}

std::int64_t elements_of(const torch::nn::Module& net) {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : net.parameters()) elements += parameter.numel();
  return elements;
}

struct Batch {
  at::Tensor x, y;
};

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

struct StepSeconds {
  std::vector<double> whole, from_first_bucket;
};

// The latest of all ranks, of each step.
std::vector<double> latest(comm::Group& group, const std::vector<double>& mine) {
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size())), last = mine;
  group.all_gather(mine, all, {.deadline = Deadline::after(std::chrono::minutes(1)), .stop = {}});
  for (std::size_t i = 0; i < all.size(); ++i) last[i % mine.size()] = std::max(last[i % mine.size()], all[i]);
  return last;
}

StepSeconds time_steps(torch::nn::SequentialImpl& net, sync::DataParallel& parallel, comm::Group& group,
                       const Batch& batch, int steps) {
  StepSeconds seconds;
  std::vector<double> first_buckets, ends;         // seconds of the clock
  const std::size_t last_hidden = net.size() - 3;  // its gradients and those behind it are the first bucket
  for (int step = -kWarmUp; step < steps; ++step) {
    const Clock::time_point start = Clock::now();
    double first_bucket = 0;
    at::Tensor x = batch.x;
    std::size_t layer = 0;
    for (torch::nn::AnyModule& module : net) {
      if (layer++ == last_hidden) x.register_hook([&](const at::Tensor&) { first_bucket = now(); });
      x = module.forward(x);
    }
    parallel.backward(at::mse_loss(x, batch.y), kRows);
    parallel.step();
    if (step < 0) continue;
    seconds.whole.push_back(seconds_since(start));
    first_buckets.push_back(first_bucket);
    ends.push_back(now());
  }
  const std::vector<double> all_have_one = latest(group, first_buckets);
  for (std::size_t i = 0; i < ends.size(); ++i) seconds.from_first_bucket.push_back(ends[i] - all_have_one[i]);
  return seconds;
}

// The sums of a step and nothing else.
std::vector<double> time_sums(comm::Group& group, std::int64_t elements, int steps) {
  const at::Tensor flat = group.allocate(elements, at::kFloat, at::kCPU);
  const std::int64_t most = sync::kBucketBytes / flat.element_size();
  const Limits limits{.deadline = Deadline::after(std::chrono::minutes(5)), .stop = {}};
  std::vector<double> seconds;
  for (int step = -1; step < steps; ++step) {
    flat.fill_(group.rank() + 1);
    group.barrier(limits);
    const Clock::time_point start = Clock::now();
    std::vector<comm::Pending> sums;
    for (const at::Tensor& bucket : flat.split(most)) sums.push_back(group.start_all_reduce(bucket));
    for (comm::Pending& sum : sums) sum.wait(limits);
    if (step >= 0) seconds.push_back(seconds_since(start));
    const double expected = group.size() * (group.size() + 1) / 2.0;
    if (!at::all(flat == expected).item<bool>()) throw std::runtime_error("a sum is not that of all ranks");
  }
  return seconds;
}

double median(std::vector<double> seconds) { return Samples(std::move(seconds)).quantile(0.5); }

// Medians of the steps with all ranks and alone, and of the sums, in turns.
struct Times {
  std::vector<double> together, from_first_bucket, alone, sums;
};

Times time(const Shape& shape, const comm::World& world) {
  torch::manual_seed(world.rank);
  const Batch batch{at::randn({kRows, kInputs}), at::randn({kRows, kOutputs})};
  const auto single = comm::make_local_group(1);
  const auto shared_net = make_net(shape), own_net = make_net(shape);
  const sync::DataParallelOptions options{.optimizer = {model::SgdOptions{.lr = 1e-3}}};
  sync::DataParallel together(shared_net, *world.group, options), alone(own_net, *single.front(), options);
  Times times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    times.alone.push_back(median(time_steps(*own_net, alone, *single.front(), batch, shape.steps).whole));
    world.group->barrier({.deadline = Deadline::after(std::chrono::minutes(1)), .stop = {}});
    const StepSeconds steps = time_steps(*shared_net, together, *world.group, batch, shape.steps);
    times.together.push_back(median(steps.whole));
    times.from_first_bucket.push_back(median(steps.from_first_bucket));
    times.sums.push_back(median(time_sums(*world.group, elements_of(*shared_net), 1 + shape.steps / 4)));
  }
  together.require_same_state();
  return times;
}

int run(Size size) {
  at::set_num_threads(1);
  const char* encrypt = std::getenv("STEP_BENCH_ENCRYPT");
  const comm::World world = comm::open_world(comm::launcher_environment(),
                                             comm::read_world_flags({.encrypt = encrypt != nullptr ? encrypt : ""}));
  std::vector<Shape> shapes{{"1.1M", 512, 4, 100}, {"10.6M", 1024, 10, 30}, {"25.3M", 2048, 6, 20}};
  if (size == Size::kSmoke) shapes = {{"0.1M", 288, 1, 3}};
  for (const Shape& shape : shapes) {
    const Times times = time(shape, world);
    if (world.rank != 0) continue;
    const double together = median(times.together);
    const auto report = [&](const char* what, double seconds) {
      print({.case_name = concat(shape.name, " parameters, ", what),
             .contender = "tandem",
             .unit = "ms",
             .value = 1e3 * seconds,
             .samples = times.together.size()});
    };
    report("added", together - median(times.alone));
    report("a step", together);
    report("from the first buckets", median(times.from_first_bucket));
    report("the sums", median(times.sums));
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
