// Question: what does a training step cost under each strategy, and how much optimizer state does a replica keep?
//
//     tandem launch --ranks 2 -- strategy_bench [--smoke]
//
// An MLP on 8 rows a rank, one replica a rank with one thread, Adam with clipping. Rank 0 prints the median of the
// steps, which the strategies make in turns, and its bytes of moments. All strategies must end with the same state.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <array>
#include <iostream>
#include <memory>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/text.h"
#include "tandem/comm/world.h"
#include "tandem/sync/strategies.h"

namespace tandem::bench {
namespace {

constexpr int kInputs = 64, kRows = 8, kWarmUp = 5;

struct Shape {
  const char* name;
  int width, hidden, steps;
};

struct Contender {
  const char* name;
  sync::StrategyOptions options;
};

const std::array kContenders{
    Contender{"replicated", sync::ReplicatedOptions{}}, Contender{"divided", sync::DividedOptions{}},
    Contender{"parameter_server", sync::ParameterServerOptions{}},
    Contender{"parameter_server, first", sync::ParameterServerOptions{.mean = {}, .servers = sync::Servers::kFirst}}};

std::shared_ptr<torch::nn::SequentialImpl> make_net(const Shape& shape) {
  torch::manual_seed(3);
  auto net = std::make_shared<torch::nn::SequentialImpl>();
  for (int layer = 0; layer <= shape.hidden; ++layer) {
    net->push_back(torch::nn::Linear(layer == 0 ? kInputs : shape.width, shape.width));
    net->push_back(torch::nn::Tanh());
  }
  return net;
}

Limits patience() { return {.deadline = Deadline::after(std::chrono::minutes(2)), .stop = {}}; }

// One rank's replica under one strategy.
class Training {
 public:
  Training(const Shape& shape, const comm::World& world, const sync::StrategyOptions& options)
      : net_(make_net(shape)),
        replica_(
            {.replica = world.rank, .replicas = world.size, .shards = world.size, .mine = {world.rank, world.rank + 1}},
            net_, 1, {model::AdamOptions{}}),
        strategy_(sync::make_strategy(sync::with_mean(options, {.max_grad_norm = 0.5}), replica_, *world.group)),
        x_(at::arange(kRows * kInputs, at::kFloat).view({kRows, kInputs}).add(world.rank).sin()) {
    strategy_->begin(patience());
  }

  double seconds_of_a_step() {
    const Clock::time_point start = Clock::now();
    strategy_->open(replica_.placement().mine.begin);
    net_->forward(x_).square().mean().backward();
    strategy_->close(1, 0);
    strategy_->step(1, patience());
    return seconds_since(start);
  }

  [[nodiscard]] double mebibytes_of_moments() {
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : replica_.optimizer().state()) bytes += tensor.nbytes();
    for (const model::PartialMoment& moment : replica_.optimizer().partial_moments()) bytes += moment.kept.nbytes();
    return static_cast<double>(bytes) / (1 << 20);
  }
  [[nodiscard]] std::string state() { return model::state_sha256(strategy_->whole_state(patience())); }

 private:
  std::shared_ptr<torch::nn::SequentialImpl> net_;
  sync::Replica replica_;
  std::unique_ptr<sync::Strategy> strategy_;
  at::Tensor x_;
};

int compare(const Shape& shape, const comm::World& world) {
  std::vector<std::unique_ptr<Training>> trainings;
  for (const Contender& contender : kContenders)
    trainings.push_back(std::make_unique<Training>(shape, world, contender.options));
  std::vector<std::vector<double>> seconds(trainings.size());
  for (int step = -kWarmUp; step < shape.steps; ++step) {
    for (std::size_t i = 0; i < trainings.size(); ++i) {
      const double took = trainings[i]->seconds_of_a_step();
      if (step >= 0) seconds[i].push_back(took);
    }
  }
  const std::string expected = trainings.front()->state();
  bool agree = true;
  for (std::size_t i = 0; i < trainings.size(); ++i) {
    if (trainings[i]->state() != expected) {
      std::cerr << kContenders[i].name << " ended with another state than " << kContenders[0].name << '\n';
      agree = false;
    }
    if (world.rank != 0) continue;
    const std::string contender = kContenders[i].name;
    print({.case_name = concat(shape.name, " parameters, a step"),
           .contender = contender,
           .unit = "ms",
           .value = 1e3 * Samples(seconds[i]).quantile(0.5),
           .samples = seconds[i].size()});
    print({.case_name = concat(shape.name, " parameters, moments"),
           .contender = contender,
           .unit = "MiB",
           .value = trainings[i]->mebibytes_of_moments(),
           .samples = 1});
  }
  return agree ? 0 : 1;
}

int run(Size size) {
  at::set_num_threads(1);
  const comm::World world = comm::open_world(comm::launcher_environment(), {});
  std::vector<Shape> shapes{{"1.1M", 512, 4, 100}, {"10.6M", 1024, 10, 30}};
  if (size == Size::kSmoke) shapes = {{"0.1M", 288, 1, 3}};
  int outcome = 0;
  for (const Shape& shape : shapes) outcome = std::max(outcome, compare(shape, world));
  return outcome;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
