// Question: how many instructions do the hot loops take for fixed small work? tools/count runs this under callgrind,
// which counts within the functions that a workload names, and compares with bench/counted/bounds.json.
//
//   counted_work            prints a line a workload: its name, a tab, the functions within which instructions count
//   counted_work NAME       does that work once
//
// Counts do not depend on what else the machine does. So that they depend little on the processor, vector code is that
// of AVX2, which is all that callgrind knows, whatever the processor has beside. Instrumentation begins with the work,
// since loading LibTorch would take most of the time under it.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tandem/app/program.h"
#include "tandem/base/philox.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/kernels/images/torso_net.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION \
  throw std::runtime_error("it was built without valgrind's headers; install valgrind and build it again")
#endif

namespace tandem::bench {
namespace {

constexpr const char* kWithin = "tandem::bench::(anonymous namespace)::counted_*";

// 500 steps of 64 environments, restarts included.
__attribute__((noinline)) void counted_steps(rl::EnvGroup& group, const rl::EnvActions& actions,
                                             const rl::EnvArrays& arrays) {
  for (int step = 0; step < 500; ++step) group.step(actions, arrays);
}

void step_environments(const char* id) {
  constexpr int kEnvs = 64;
  const std::unique_ptr<rl::EnvGroup> group = rl::EnvRegistry::native().make(id, kEnvs);
  rl::EnvBuffers buffers(*group);
  std::vector<std::uint64_t> seeds(kEnvs);
  for (std::size_t env = 0; env < seeds.size(); ++env) seeds[env] = env;
  group->reset(seeds, buffers.arrays());
  std::vector<std::int64_t> discrete(kEnvs);
  std::vector<float> box(kEnvs);
  for (std::size_t env = 0; env < seeds.size(); ++env) {
    Philox random(1, env);
    discrete[env] = static_cast<std::int64_t>(random.below(2));
    box[env] = static_cast<float>(random.uniform_double());
  }
  rl::EnvActions actions;
  if (std::holds_alternative<rl::Box>(group->spec().action)) {
    actions.box = box.data();
  } else {
    actions.discrete = discrete.data();
  }
  counted_steps(*group, actions, buffers.arrays());
}

// A layer of 64 inputs and 64 tanh outputs, 64 rows at a time, 100 times.
__attribute__((noinline)) void counted_layer(const rl::MlpKernels& kernels, const rl::PackedLayer& layer,
                                             const float* x, float* y) {
  for (int i = 0; i < 100; ++i) {
    kernels.dense(x, layer.inputs, 64, layer, y);
    kernels.activate(rl::Activation::kTanh, y, y, 64 * rl::padded(layer.outputs));
  }
}

void run_layer() {
  constexpr std::int64_t kUnits = 64, kRows = 64;
  std::vector<float> weight(kUnits * kUnits), bias(kUnits), x(kRows * kUnits), y(kRows * kUnits);
  Philox random(1, 2);
  for (std::vector<float>* numbers : {&weight, &bias, &x}) {
    for (float& number : *numbers) number = static_cast<float>(random.uniform_double() - 0.5);
  }
  rl::PackedLayer layer(kUnits, kUnits);
  layer.pack(weight.data(), bias.data());
  counted_layer(rl::mlp_kernels(InstructionSet::kAvx2), layer, x.data(), y.data());
}

// Two pictures of 84x84 in four channels through the torso of the Nature paper and back.
__attribute__((noinline)) void counted_torso(rl::TorsoNet<float>& net, const std::uint8_t* pixels, float* row) {
  for (int i = 0; i < 2; ++i) {
    net.forward(0, pixels, row);
    net.backward(0, row);
  }
}

void run_torso() {
  constexpr std::int64_t kSide = 84, kChannels = 4;
  const rl::Leaf leaf{.name = "image", .type = rl::ElementType::kUInt8, .shape = {kChannels, kSide, kSide}};
  at::Generator random = at::detail::createCPUGenerator(1);
  const auto torso = rl::make_torso(rl::Torso::kNatureCnn, {}, leaf, random);
  rl::TorsoNet<float> net(*torso, InstructionSet::kAvx2, {});
  net.begin();
  const std::vector<std::uint8_t> pixels(kChannels * kSide * kSide, 100);
  std::vector<float> row(static_cast<std::size_t>(torso->features()));
  counted_torso(net, pixels.data(), row.data());
}

// An update of configs/cartpole-cleanrl.yaml's sizes, on one replica, so that nobody waits.
rl::PpoSetup setup_of(rl::LossKernel kernel) {
  rl::PpoSetup setup;
  setup.seed = 1;
  setup.shards = 2;
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 128;
  setup.ppo.epochs = 4;
  setup.ppo.minibatches = 4;
  setup.ppo.kernel = kernel;
  setup.actor.instruction_set = InstructionSet::kAvx2;
  setup.make_envs = [](int count) { return rl::EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = [](const rl::Spec& spec, at::Generator generator) {
    return std::make_shared<rl::MlpPolicy>(spec, rl::MlpPolicyOptions{}, generator);
  };
  return setup;
}

void train(rl::PpoSetup setup) {
  rl::PpoRun run(std::move(setup));
  (void)run.update();
}

// The same sizes with an LSTM or a GRU of 64 units. They make one epoch, since valgrind takes a second for five million
// of their instructions.
rl::PpoSetup recurrent_setup(rl::CellKind cell) {
  rl::PpoSetup setup = setup_of(rl::LossKernel::kAuto);
  setup.ppo.epochs = 1;
  setup.ppo.sequences = rl::SequenceOptions{.length = 32};
  setup.make_envs = [](int count) { return rl::EnvRegistry::native().make("MaskedCartPole-v1", count); };
  setup.make_policy = rl::recurrent_policy_factory({.mlp = {.hidden = {64}}, .cell = cell, .size = 64});
  return setup;
}

// The program's loop around 200 small updates: what a run's record costs, with a line an update and nobody who watches.
void train_by_the_program() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tandem-counted-" + std::to_string(::getpid()));
  const std::string place = folder.string();
  const std::array words{"tandem",
                         "train",
                         "--env",
                         "CartPole-v1",
                         "--num-envs",
                         "4",
                         "--rollout-steps",
                         "16",
                         "--total-steps",
                         "12800",
                         "--epochs",
                         "1",
                         "--minibatches",
                         "1",
                         "--seed",
                         "1",
                         "--devices",
                         "cpu:1",
                         "--quiet",
                         "--set",
                         "checkpoint.every_seconds=none",
                         "--set",
                         "policy.hidden=8",
                         "--set",
                         "instructions=avx2",
                         "--run-dir",
                         place.c_str()};
  const int code = app::run_program(static_cast<int>(words.size()), words.data(), rl::EnvRegistry::native());
  std::filesystem::remove_all(folder);
  if (code != 0) throw std::runtime_error("the run ended with " + std::to_string(code));
}

struct Workload {
  const char* name;
  const char* within;
  void (*work)();
};

constexpr std::array kWorkloads{
    Workload{"cartpole_steps", kWithin, [] { step_environments("CartPole-v1"); }},
    Workload{"pendulum_steps", kWithin, [] { step_environments("Pendulum-v1"); }},
    Workload{"layer_avx2", kWithin, run_layer},
    Workload{"torso_avx2", kWithin, run_torso},
    Workload{"rollout", "tandem::rl::RolloutWorker::collect*", [] { train(setup_of(rl::LossKernel::kAuto)); }},
    Workload{"ppo_update", "tandem::rl::Ppo::update*", [] { train(setup_of(rl::LossKernel::kAuto)); }},
    Workload{"ppo_update_tensors", "tandem::rl::Ppo::update*", [] { train(setup_of(rl::LossKernel::kOff)); }},
    Workload{"program_updates", "tandem::app::(anonymous namespace)::Training::loop(*const&)", train_by_the_program},
    Workload{"recurrent_rollout", "tandem::rl::RolloutWorker::collect*",
             [] { train(recurrent_setup(rl::CellKind::kLstm)); }},
    Workload{"lstm_update", "tandem::rl::Ppo::update*", [] { train(recurrent_setup(rl::CellKind::kLstm)); }},
    Workload{"gru_update", "tandem::rl::Ppo::update*", [] { train(recurrent_setup(rl::CellKind::kGru)); }},
};

int run(const std::vector<std::string>& names) {
  if (names.empty()) {
    for (const Workload& workload : kWorkloads) std::cout << workload.name << '\t' << workload.within << '\n';
    return 0;
  }
  for (const Workload& workload : kWorkloads) {
    if (names.size() != 1 || names.front() != workload.name) continue;
    at::set_num_threads(1);
    CALLGRIND_START_INSTRUMENTATION;
    workload.work();
    return 0;
  }
  std::cerr << "counted_work takes one workload; without an argument it lists them\n";
  return 2;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  try {
    return tandem::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "counted_work: " << error.what() << '\n';
    return 1;
  }
}
