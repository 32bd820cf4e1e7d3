// PpoRun with fragments of complete episodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

PpoSetup complete_episodes(int replicas) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = 4;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.ppo.rollout_steps = 32;
  setup.ppo.batch_mode = BatchMode::kCompleteEpisodes;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = [](const Spec& spec, at::Generator generator) {
    return std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{}, generator);
  };
  return setup;
}

TEST(PpoBatchModeTest, CompleteEpisodesGiveTheSameBitsOnAnyTopologyAndAfterALoad) {
  PpoRun whole(complete_episodes(1));
  for (int i = 0; i < 4; ++i) (void)whole.update();
  PpoRun first(complete_episodes(3));
  for (int i = 0; i < 2; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  PpoRun second(complete_episodes(2));
  EXPECT_EQ(second.load([&parts](const std::string& name) { return learner::part_of(parts, name); }),
            RolloutWorker::Resumed::kExactly);
  for (int i = 0; i < 2; ++i) (void)second.update();
  EXPECT_EQ(second.state_sha256(), whole.state_sha256());
  EXPECT_EQ(second.env_steps(), whole.env_steps());
}

// All that was sampled is of episodes that ended in the same update.
TEST(PpoBatchModeTest, EnvironmentStepsAreThoseOfTheEpisodesThatEnded) {
  PpoRun run(complete_episodes(2));
  std::int64_t steps = 0;
  for (int i = 0; i < 3; ++i) {
    const RunReport report = run.update();
    EXPECT_EQ(report.learning.minibatches, 4 * 4);  // passes of as many as ever
    EXPECT_GT(run.env_steps() - steps, 8 * 32);
    EXPECT_EQ(report.ranks.front().env_steps, run.env_steps() - steps);
    EXPECT_FALSE(report.rollouts.has_value());  // nothing was cut short, and there is nothing to replay
    steps = run.env_steps();
  }
  ASSERT_LT(run.episodes().total(), 100);  // all are in the window
  double lengths = 0;
  for (const Episode& episode : run.episodes().episodes()) lengths += static_cast<double>(episode.length);
  EXPECT_EQ(static_cast<double>(steps), lengths);
}

TEST(PpoBatchModeTest, CompleteEpisodesAreRefusedWhereRolloutsMayEndEarly) {
  PpoSetup setup = complete_episodes(1);
  setup.stragglers.recorded = {{32, 32, 32, 32}};
  try {
    PpoRun run(std::move(setup));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("complete_episodes: no rollout may end"));
  }
}

}  // namespace
}  // namespace tandem::rl
