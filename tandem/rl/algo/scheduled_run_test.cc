// Schedules of whole runs: points, functions, and what a resume makes of them.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/testing/message_of.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/algo/testing/small_impala.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

// Four updates on two replicas.
PpoSetup scheduled_ppo() {
  PpoSetup setup;
  setup.seed = 3;
  setup.shards = 2;
  setup.devices = {c10::Device(c10::kCPU), c10::Device(c10::kCPU)};
  setup.ppo.num_envs = 4;
  setup.ppo.rollout_steps = 16;
  setup.ppo.epochs = 1;
  setup.ppo.minibatches = 2;
  setup.total_steps = 4 * setup.ppo.batch_rows();
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = mlp_policy_factory({.hidden = {8}});
  return setup;
}

TEST(ScheduledRunTest, PointsAndFunctionsTakeThePlaceOfTheOptionsValue) {
  PpoSetup setup = scheduled_ppo();
  setup.ppo.learning_rate_schedule = Schedule::piecewise({{0, 1e-3}, {0.5, 2e-3}, {1, 0}});
  setup.ppo.clip_range_schedule = [](double share) { return 0.1 + share; };
  setup.ppo.entropy_coef = 0;
  setup.ppo.entropy_coef_schedule = Schedule::piecewise({{0, 0.5}, {1, 0}});
  PpoRun run(setup);
  const double rates[] = {1e-3, 1.5e-3, 2e-3, 1e-3};
  for (int i = 0; i < 4; ++i) {
    const LearnReport report = run.update().learning;
    EXPECT_DOUBLE_EQ(report.learning_rate, rates[i]);
    EXPECT_DOUBLE_EQ(report.clip_range, 0.1 + 0.25 * i);
    EXPECT_DOUBLE_EQ(report.entropy_coef, 0.5 - 0.125 * i);
  }
  // They are what the optimizer and the loss have.
  setup.ppo.entropy_coef_schedule = {};
  PpoRun other(setup);
  for (int i = 0; i < 4; ++i) (void)other.update();
  EXPECT_NE(other.state_sha256(), run.state_sha256());
}

TEST(ScheduledRunTest, AFunctionOfAWordsValuesGivesTheStateOfTheWord) {
  PpoSetup word = scheduled_ppo(), function = scheduled_ppo(), points = scheduled_ppo();
  // With powers of two nothing is rounded.
  word.ppo.learning_rate = function.ppo.learning_rate = points.ppo.learning_rate = 0x1p-10;
  word.ppo.learning_rate_schedule = Schedule::kLinear;
  function.ppo.learning_rate_schedule = [](double share) { return 0x1p-10 * (1 - share); };
  points.ppo.learning_rate_schedule = Schedule::piecewise({{0, 0x1p-10}, {1, 0}});
  const auto state = [](const PpoSetup& setup) {
    PpoRun run(setup);
    for (int i = 0; i < 4; ++i) (void)run.update();
    return run.state_sha256();
  };
  EXPECT_EQ(state(function), state(word));
  EXPECT_EQ(state(points), state(word));
}

TEST(ScheduledRunTest, ARunThatGoesOnIsWhereItWas) {
  PpoSetup setup = scheduled_ppo();
  setup.ppo.learning_rate_schedule = Schedule::piecewise({{0, 1e-3}, {0.5, 1e-3}, {0.5, 1e-2}});
  PpoRun whole(setup), first(setup), second(setup);
  for (int i = 0; i < 4; ++i) (void)whole.update();
  for (int i = 0; i < 2; ++i) EXPECT_DOUBLE_EQ(first.update().learning.learning_rate, 1e-3);
  const learner::StateParts parts = first.save();
  (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  for (int i = 0; i < 2; ++i) EXPECT_DOUBLE_EQ(second.update().learning.learning_rate, 1e-2);
  EXPECT_EQ(second.state_sha256(), whole.state_sha256());
}

TEST(ScheduledRunTest, AValueThatCannotBeEndsTheRun) {
  PpoSetup setup = scheduled_ppo();
  setup.ppo.learning_rate_schedule = [](double share) { return 1e-3 - 4e-3 * share; };
  PpoRun run(setup);
  (void)run.update();
  (void)run.update();
  EXPECT_THAT(message_of<ConfigError>([&] { (void)run.update(); }),
              ::testing::HasSubstr("gave -0.001 at the share 0.5 of the run"));
}

TEST(ScheduledRunTest, TheLearnerOfImpalaHasThem) {
  ImpalaSetup setup = testing::small_impala({});
  setup.total_steps = 10 * setup.impala.batch_rows();  // two updates of five batches
  setup.impala.learning_rate_schedule = Schedule::piecewise({{0, 1e-3}, {0.4, 1e-3}, {0.5, 5e-4}});
  ImpalaRun run(setup);
  EXPECT_DOUBLE_EQ(run.update().learning.learning_rate, 1e-3);
  EXPECT_DOUBLE_EQ(run.update().learning.learning_rate, 5e-4);
}

}  // namespace
}  // namespace tandem::rl
