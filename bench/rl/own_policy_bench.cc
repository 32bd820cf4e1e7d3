// Question: how many environment steps per second does PPO make with policies of one's own (torch::nn modules, eager
// operations), with the loss in one pass over its rows and by tensor operations?
#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <iostream>

#include "bench/rl/own_policies.h"
#include "bench/timing.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::bench {
namespace {

using MakePolicy = std::shared_ptr<rl::ActorCritic> (*)(const rl::Spec& spec);

// The settings of ppo_cartpole, on two replicas.
rl::PpoSetup setup_of(MakePolicy make, rl::LossKernel kernel) {
  rl::PpoSetup setup;
  setup.seed = 1;
  setup.total_steps = 1'000'000;
  setup.shards = 2;
  setup.devices.assign(2, c10::Device(c10::kCPU));
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 128;
  setup.ppo.minibatches = 4;
  setup.ppo.kernel = kernel;
  setup.make_envs = [](int count) { return rl::EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = [make](const rl::Spec& spec, const at::Generator& /*of_the_run*/) {
    torch::manual_seed(1);  // torch::nn draws from it; all replicas start alike
    return make(spec);
  };
  return setup;
}

double steps_per_second(rl::PpoRun& run, int updates) {
  const std::int64_t before = run.env_steps();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < updates; ++i) (void)run.update();
  return static_cast<double>(run.env_steps() - before) / seconds_since(start);
}

// Returns whether the answer is wrong: the first update's losses are the same to rounding.
bool run_case(const std::string& name, MakePolicy make, Size size) {
  rl::PpoRun pass(setup_of(make, rl::LossKernel::kAuto)), operations(setup_of(make, rl::LossKernel::kOff));
  const double ours = pass.update().learning.value_loss, theirs = operations.update().learning.value_loss;
  if (!(std::abs(ours - theirs) < 1e-3 * std::abs(theirs))) {
    std::cerr << name << ": a value loss of " << ours << " in one pass, " << theirs << " by operations\n";
    return true;
  }
  std::vector<double> in_pass, by_operations;
  for (int round = 0; round < (size == Size::kSmoke ? 1 : 9); ++round) {  // in turn
    in_pass.push_back(steps_per_second(pass, size == Size::kSmoke ? 1 : 5));
    by_operations.push_back(steps_per_second(operations, size == Size::kSmoke ? 1 : 5));
  }
  const auto tell = [&](const char* contender, std::vector<double> rates) {
    const Samples samples(std::move(rates));
    print({.case_name = name,
           .contender = contender,
           .unit = "steps/s",
           .value = samples.quantile(0.5),
           .samples = samples.size()});
  };
  tell("tandem", in_pass);
  tell("by operations", by_operations);
  return false;
}

int run_all(Size size) {
  at::set_num_threads(1);
  const bool residual = run_case("residual MLP", residual_policy, size);
  const bool transformer = run_case("transformer", transformer_policy, size);
  return residual || transformer ? 1 : 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run_all); }
