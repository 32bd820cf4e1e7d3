// Runs whose environments step while the optimizer does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

#include "tandem/base/error.h"
#include "tandem/rl/algo/testing/small_off_policy.h"
#include "tandem/rl/env/env_adapter.h"

namespace tandem::rl {
namespace {

using rl::testing::off_policy_state_after;
using rl::testing::small_dqn;
using rl::testing::small_sac;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Names of the threads that made steps; the environment breaks at a step, unless that is 0.
struct Seen {
  std::mutex mutex;
  std::set<std::string> threads;
  int steps = 0, breaks_at = 0;
};

struct Arm {
  using Angle = std::array<float, 1>;
  explicit Arm(Seen& seen) : seen_(seen) {}

  static Spec spec() {
    return {.id = "Arm-v0", .observation = {{.shape = {1}}}, .action = Box{{-1}, {1}}, .max_episode_steps = 10};
  }
  Angle reset(NumpyGenerator& /*random*/) { return {angle_ = 0}; }
  StepResult<Angle> step(std::span<const float> action) {
    std::array<char, 16> name{};
    (void)pthread_getname_np(pthread_self(), name.data(), name.size());
    const std::lock_guard lock(seen_.mutex);
    seen_.threads.insert(name.data());
    if (++seen_.steps == seen_.breaks_at) throw std::runtime_error("the arm is broken");
    angle_ += action[0];
    return {.observation = {angle_}, .reward = -angle_ * angle_};
  }

 private:
  Seen& seen_;
  float angle_ = 0;
};

OffPolicySetup arm_run(Seen& seen) {
  OffPolicySetup setup = small_sac({});
  setup.off_policy.sampling = Sampling::kBeside;
  setup.make_envs = [&seen](int count) {
    return std::make_unique<EnvGroupOf<Arm>>(count, [&seen] { return std::make_unique<Arm>(seen); });
  };
  return setup;
}

TEST(SamplingBesideTest, EnvironmentsStepOnAThreadOfTheirOwn) {
  Seen seen;
  OffPolicyRun run(arm_run(seen));
  for (int i = 0; i < 2; ++i) (void)run.update();
  EXPECT_EQ(seen.steps, 2 * 64);
  EXPECT_THAT(seen.threads, Each(StartsWith("envs ")));
}

// What a step brings is learned from one step later: the turn that begins with step 100 is the first.
TEST(SamplingBesideTest, NothingIsLearnedBeforeLearningStartsAndTheRatioIsKept) {
  for (const int train_every : {1, 4}) {
    OffPolicySetup setup = small_sac({});
    setup.off_policy.sampling = Sampling::kBeside;
    setup.off_policy.learning_starts = 112;  // of 64 steps an update
    setup.off_policy.train_every = train_every;
    setup.off_policy.gradient_steps = 3;
    OffPolicyRun run(std::move(setup));
    EXPECT_EQ(run.update().learning.minibatches, 0);
    EXPECT_EQ(run.update().learning.minibatches, 3 * (128 - 112) / (4 * train_every));
    EXPECT_EQ(run.update().learning.minibatches, 3 * 64 / (4 * train_every));
  }
}

TEST(SamplingBesideTest, NumbersAreOthersThanInTurnAndTheSameOnAnyReplicas) {
  const auto state_of = [](const auto& make, auto options, int replicas, Sampling sampling) {
    options.sampling = sampling;
    options.train_every = 2;
    options.gradient_steps = 3;
    return off_policy_state_after(make({.replicas = replicas}, options), 3);
  };
  const auto expect_law = [&](const auto& make, const auto& options) {
    const std::string beside = state_of(make, options, 1, Sampling::kBeside);
    for (const int replicas : {2, 4}) EXPECT_EQ(state_of(make, options, replicas, Sampling::kBeside), beside);
    EXPECT_NE(state_of(make, options, 1, Sampling::kInTurn), beside);
  };
  expect_law(small_sac, SacOptions{});
  DqnOptions dqn;
  dqn.first_epsilon = 0.5;
  expect_law(small_dqn, dqn);
}

TEST(SamplingBesideTest, AnEnvironmentThatFailsEndsTheUpdateWithItsName) {
  Seen seen;
  seen.breaks_at = 90;
  OffPolicyRun run(arm_run(seen));
  (void)run.update();
  try {
    (void)run.update();
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the arm is broken"));
    EXPECT_THAT(error.what(), HasSubstr("Arm-v0"));
  }
}

}  // namespace
}  // namespace tandem::rl
