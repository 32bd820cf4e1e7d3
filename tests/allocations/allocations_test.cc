// What Tandem's own code allocates once a run is warm: nothing, neither for an environment step nor for a batch.
// LibTorch's tensors, temporaries among them, are its own (allocation_count.h).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "allocation_count.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/mujoco/mujoco_envs.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"
#include "tandem/rl/policy/kernels/squashed_normal_gradient.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::tandem::testing::AllocationCount;

// Not a thing that a compiler can see through.
__attribute__((noinline)) void use(const void* memory) { __asm__ volatile("" : : "r"(memory) : "memory"); }

PolicyFactory mlp_policies() {
  return [](const Spec& spec, at::Generator generator) {
    return std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{}, generator);
  };
}

TEST(AllocationCountTest, TellsWhoseItIs) {
  std::vector<int> ours;
  std::string by_the_library;
  AllocationCount count;
  ours.resize(100);
  use(ours.data());
  by_the_library.append(100, 'x');  // the C++ library asks for the memory, on our behalf
  use(by_the_library.data());
  use(std::make_unique<int>(1).get());
  count.stop();
  EXPECT_EQ(count.ours(), 3) << count.where();
  EXPECT_EQ(count.others(), 0);
  AllocationCount of_torch;
  const at::Tensor tensor = at::zeros({10});
  use(tensor.const_data_ptr());
  of_torch.stop();
  EXPECT_EQ(of_torch.ours(), 0) << of_torch.where();
  EXPECT_GT(of_torch.others(), 0);
}

struct Task {
  std::string env;
  bool normalized = false;
};

class RolloutAllocationsTest : public ::testing::TestWithParam<Task> {};

// Not even LibTorch does in a step.
TEST_P(RolloutAllocationsTest, ARolloutAllocatesNothing) {
  constexpr int kSteps = 250, kEnvs = 8;  // longer than Pendulum's time limit
  const Task& task = GetParam();
  std::unique_ptr<EnvGroup> group = EnvRegistry::native().make(task.env, kEnvs);
  const Spec spec = group->spec();
  const NormalizerOptions normalizer{.observations = task.normalized, .rewards = task.normalized};
  const Normalizers frozen(spec, normalizer);
  MlpPolicy policy(spec, MlpPolicyOptions{}, at::detail::createCPUGenerator(1));
  RolloutWorker worker(std::move(group), make_actor(policy, {}, kEnvs, 1, 0),
                       {.steps = kSteps, .sequences = {}, .normalizer = normalizer}, 0);
  worker.reset(1);
  for (int fragment = 0; fragment < 8; ++fragment) {
    (void)worker.collect(frozen);
    worker.episodes().clear_finished();
  }
  AllocationCount whole;
  worker.begin(frozen);
  whole.stop();
  EXPECT_EQ(whole.ours(), 0) << whole.where();
  AllocationCount steps;
  for (int t = 0; t < kSteps; ++t) worker.step(frozen);
  steps.stop();
  // The metrics of an episode that has ended are kept in memory of their own.
  const std::size_t ended = spec.metrics.empty() ? 0 : worker.episodes().finished().size();
  EXPECT_EQ(steps.ours(), static_cast<std::int64_t>(ended)) << steps.where();
  EXPECT_EQ(steps.others(), 0);
  AllocationCount end;
  (void)worker.end();
  end.stop();
  EXPECT_EQ(end.ours(), 0) << end.where();
}

std::vector<Task> tasks() {
  std::vector<Task> all{
      {"CartPole-v1"}, {"Pendulum-v1"}, {"Pendulum-v1", true}, {"MountainCarContinuous-v0"}, {"Acrobot-v1"}};
  // Of MuJoCo's, where this build has them: one whose episodes end by their limit, and one whose episodes end often.
  if (!mujoco_entries().empty()) all.insert(all.end(), {{"Reacher-v5"}, {"Hopper-v5", true}, {"Humanoid-v5"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Tasks, RolloutAllocationsTest, ::testing::ValuesIn(tasks()), [](const auto& task) {
  std::string name = task.param.env + (task.param.normalized ? "Normalized" : "");
  std::erase(name, '-');
  return name;
});

// Not even LibTorch does in the passes of an off-policy update, the first ones included.
TEST(KernelAllocationsTest, PassesOfAnEnsembleAllocateNothing) {
  constexpr std::int64_t kRows = 70, kAction = 2;
  const Mlp::Options sizes{.sizes = {9, 32, 40, 2 * kAction}, .norm = Mlp::Norm::kLayer};
  const Mlp first(sizes, at::detail::createCPUGenerator(1)), second(sizes, at::detail::createCPUGenerator(2));
  for (const Mlp* net : {&first, &second}) {
    for (at::Tensor parameter : net->parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
  }
  const std::vector<float> rows(kRows * 9, 0.5F), of_output(2 * kRows * 2 * kAction, 0.1F);
  MlpEnsemble<float> ensemble({&first, &second}, {.max_rows = kRows, .second_features = kAction});
  SquashedNormalGradient<float> draws(kAction, kRows, {}, InstructionSet::kPortable);
  AllocationCount count;
  const float* output = ensemble.forward({.first = rows.data(), .second = rows.data()}, kRows);
  draws.forward(output, rows.data(), kRows);
  use(draws.backward(rows.data(), rows.data()));
  use(ensemble.backward(of_output.data(), ParameterGradients::kAdd, InputGradient::kSecond));
  count.stop();
  EXPECT_EQ(count.ours(), 0) << count.where();
  EXPECT_EQ(count.others(), 0);
}

ImpalaSetup impala() {
  ImpalaSetup setup;
  setup.seed = 1;
  setup.total_steps = 1'000'000'000;
  setup.impala.num_envs = 8;
  setup.impala.rollout_steps = 32;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = mlp_policies();
  return setup;
}

// `of_a_report`: what update() may allocate for each report that it hands out.
void expect_no_allocations(TrainingRun& run, std::int64_t of_a_report = 0) {
  constexpr int kUpdates = 20;
  for (int update = 0; update < 40; ++update) (void)run.update();
  AllocationCount count;
  for (int update = 0; update < kUpdates; ++update) (void)run.update();
  count.stop();
  EXPECT_EQ(count.ours(), of_a_report * kUpdates) << count.where();
  EXPECT_GT(count.others(), 0);  // LibTorch's
}

TEST(RunAllocationsTest, Impala) {
  ImpalaRun run(impala());
  expect_no_allocations(run);
}

TEST(RunAllocationsTest, Appo) {
  ImpalaSetup setup = impala();
  setup.appo = AppoOptions{};
  ImpalaRun run(std::move(setup));
  expect_no_allocations(run);
}

TEST(RunAllocationsTest, ImpalaWhoseBatchesWaitForABoundOnTheirLag) {
  ImpalaSetup setup = impala();
  setup.impala.max_policy_lag = 6;
  ImpalaRun run(std::move(setup));
  expect_no_allocations(run);
}

TEST(RunAllocationsTest, ImpalaOnTwoReplicas) {
  ImpalaSetup setup = impala();
  setup.shards = 2;
  setup.devices = {c10::kCPU, c10::kCPU};
  ImpalaRun run(std::move(setup));
  expect_no_allocations(run);
}

TEST(RunAllocationsTest, ImpalaThatNormalizes) {
  ImpalaSetup setup = impala();
  setup.normalizer = {.observations = true, .rewards = true};
  ImpalaRun run(std::move(setup));
  expect_no_allocations(run);
}

TEST(RunAllocationsTest, ImpalaWhoseGroupsTakeTurns) {
  ImpalaSetup setup = impala();
  setup.shards = 2;
  setup.impala.splits = 2;
  ImpalaRun run(std::move(setup));
  expect_no_allocations(run);
}

TEST(RunAllocationsTest, ImpalaOfSeveralAgents) {
  for (const char* env : {"KuhnPoker-v0", "MultiAgentCartPole-v0"}) {
    ImpalaSetup setup = impala();
    setup.agents = SeveralAgents{
        .policies = {},
        .make_envs = [env](int count) { return EnvRegistry::native().find_multi_agent(env)->make(count); },
        .make_policy = [make = mlp_policies()](const MappedPolicy& policy,
                                               at::Generator generator) { return make(policy.spec, generator); }};
    ImpalaRun run(std::move(setup));
    expect_no_allocations(run, 1);  // its list of policies
  }
}

// In turns on one thread it is the same code.
TEST(RunAllocationsTest, ImpalaInline) {
  ImpalaSetup setup = impala();
  setup.impala.execution = ImpalaExecution::kInline;
  setup.impala.passes = 2;
  ImpalaRun run(std::move(setup));
  expect_no_allocations(run);
}

TEST(RunAllocationsTest, Ppo) {
  PpoSetup setup;
  setup.seed = 1;
  setup.total_steps = 1'000'000'000;
  setup.shards = 2;
  setup.devices = {c10::kCPU, c10::kCPU};
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 32;
  setup.ppo.minibatches = 4;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = mlp_policies();
  PpoRun run(std::move(setup));
  expect_no_allocations(run, 1);  // its list of ranks
}

}  // namespace
}  // namespace tandem::rl
