// IMPALA and APPO with normalised observations and rewards.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kRowsOfABatch = 4 * 8;
constexpr std::int64_t kNormalizedSteps = 40 * kRowsOfABatch;

ImpalaSetup normalized(ImpalaExecution execution, int replicas = 1) {
  ImpalaSetup setup;
  setup.seed = 5;
  setup.total_steps = kNormalizedSteps;
  setup.shards = 2;
  setup.devices.assign(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.impala.num_envs = 8;
  setup.impala.rollout_steps = 8;
  setup.impala.execution = execution;
  setup.impala.batches_per_update = 5;
  setup.impala.passes = 2;
  setup.normalizer = {.observations = true, .rewards = true};
  setup.make_envs = [](int count) { return EnvRegistry::native().make("Pendulum-v1", count); };
  setup.make_policy = mlp_policy_factory({.hidden = {16}});
  return setup;
}

void to_the_end(ImpalaRun& run) {
  while (run.env_steps() < kNormalizedSteps || !run.all_reported()) (void)run.update();
}

model::NamedTensors normalizers_of(ImpalaRun& run) { return learner::part_of(run.save(), "normalizers"); }

class ImpalaNormalizerTest : public ::testing::TestWithParam<ImpalaExecution> {};

TEST_P(ImpalaNormalizerTest, EveryStepCountsOnceHoweverOftenItIsLearnedFrom) {
  ImpalaRun run(normalized(GetParam()));
  to_the_end(run);
  const model::NamedTensors its = normalizers_of(run);
  EXPECT_EQ(find(its, "observation.0", "normalizers")[0].item<double>(), kNormalizedSteps);
  EXPECT_EQ(find(its, "discounted_return", "normalizers")[0].item<double>(), kNormalizedSteps);
}

TEST_P(ImpalaNormalizerTest, SoDoStepsThatAreDropped) {
  ImpalaSetup setup = normalized(GetParam());
  setup.impala.max_policy_lag = 0;
  setup.impala.beyond_lag = pipeline::BeyondLag::kDrop;
  ImpalaRun run(std::move(setup));
  to_the_end(run);
  EXPECT_EQ(find(normalizers_of(run), "observation.0", "normalizers")[0].item<double>(), kNormalizedSteps);
}

INSTANTIATE_TEST_SUITE_P(Both, ImpalaNormalizerTest,
                         ::testing::Values(ImpalaExecution::kThreads, ImpalaExecution::kInline), [](const auto& test) {
                           return test.param == ImpalaExecution::kInline ? "Inline" : "Threads";
                         });

// Observations far from 0.
class FarEnvs final : public testing::WrappedEnvs {
 public:
  static constexpr float kFar = 1000;
  using WrappedEnvs::WrappedEnvs;
  void reset(std::span<const std::uint64_t> seeds, const EnvArrays& out) override {
    WrappedEnvs::reset(seeds, out);
    shift(out.observation.front());
  }
  void step(const EnvActions& actions, const EnvArrays& out) override {
    WrappedEnvs::step(actions, out);
    shift(out.observation.front());
  }

 private:
  void shift(std::byte* observation) const {
    auto* const floats = reinterpret_cast<float*>(observation);
    for (std::int64_t i = 0; i < size() * spec().observation.front().count(); ++i) floats[i] += kFar;
  }
};

// Tells what it is asked with.
class SeeingPolicy final : public ActorCritic {
 public:
  SeeingPolicy(const Spec& spec, at::Generator generator, std::vector<double>& means)
      : ActorCritic(spec),
        means_(means),
        inner_(register_module(
            "inner", std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{.hidden = {8}}, std::move(generator)))) {}
  PolicyOutput forward(const Observation& observation) override {
    means_.push_back(observation.front().abs().mean().item<double>());
    return inner_->forward(observation);
  }

 private:
  std::vector<double>& means_;
  const std::shared_ptr<MlpPolicy> inner_;
};

// The first batch is seen as it is, cut to the clip; later ones with what the ones before have told.
TEST(ImpalaNormalizerInlineTest, WorkersActAndTheLearnerLearnsByWhatEarlierBatchesHaveTold) {
  ImpalaSetup setup = normalized(ImpalaExecution::kInline);
  setup.impala.kernel = LossKernel::kOff;
  setup.make_envs = [](int count) {
    return std::make_unique<FarEnvs>(EnvRegistry::native().make("Pendulum-v1", count));
  };
  std::vector<std::vector<double>> seen(3);  // by the learner and two workers
  setup.make_policy = [&seen, built = std::size_t{0}](const Spec& spec, at::Generator generator) mutable {
    return std::make_shared<SeeingPolicy>(spec, std::move(generator), seen.at(built++));
  };
  ImpalaRun run(std::move(setup));
  to_the_end(run);
  for (const std::vector<double>& means : seen) {
    ASSERT_FALSE(means.empty());
    EXPECT_NEAR(means.front(), 10, 1e-6);
    EXPECT_LT(means.back(), 2);
    EXPECT_GT(means.back(), 0.1);
  }
}

std::string normalized_state(int replicas) {
  ImpalaRun run(normalized(ImpalaExecution::kInline, replicas));
  to_the_end(run);
  return run.state_sha256();
}

TEST(ImpalaNormalizerInlineTest, AnyNumberOfReplicasGivesTheSameBits) {
  EXPECT_EQ(normalized_state(2), normalized_state(1));
  ImpalaSetup plain = normalized(ImpalaExecution::kInline);
  plain.normalizer = {};
  ImpalaRun run(std::move(plain));
  to_the_end(run);
  EXPECT_NE(run.state_sha256(), normalized_state(1));
}

TEST(ImpalaNormalizerInlineTest, ARunThatWasSavedAndLoadedGoesOnAsTheOneThatWasSaved) {
  for (const bool drops : {false, true}) {
    ImpalaSetup setup = normalized(ImpalaExecution::kInline);
    setup.appo = AppoOptions{};
    if (drops) setup.impala.max_policy_lag = 0;
    if (drops) setup.impala.beyond_lag = pipeline::BeyondLag::kDrop;
    ImpalaRun first(setup), second(setup);
    for (int i = 0; i < 3; ++i) (void)first.update();
    const learner::StateParts parts = first.save();
    // A run that has made steps of its own takes all of it as well.
    (void)second.update();
    EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
              RolloutWorker::Resumed::kExactly);
    EXPECT_EQ(second.state_sha256(), first.state_sha256());
    to_the_end(first);
    to_the_end(second);
    EXPECT_EQ(second.state_sha256(), first.state_sha256());
  }
}

TEST(ImpalaNormalizerInlineTest, ObservationsThatAreNoFloatsAreRefused) {
  ImpalaSetup setup = normalized(ImpalaExecution::kInline);
  setup.make_envs = [](int count) { return EnvRegistry::native().make("Catch-v0", count); };
  EXPECT_THROW(ImpalaRun(std::move(setup)), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
