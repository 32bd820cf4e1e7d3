#include "tandem/rl/env/goal_rewards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/native/bit_flipping.h"
#include "tandem/rl/env/restarting_envs.h"
#include "tandem/rl/env/testing/reach.h"
#include "tandem/rl/env/testing/walk.h"

namespace tandem::rl {
namespace {

using rl::testing::Reach;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rewards and ends of two steps: one that has reached its goal, one that has not.
struct Worth {
  std::vector<double> reward;
  std::vector<std::uint8_t> terminated;
};
Worth worth(EnvGroup& group, std::vector<std::uint8_t> terminated) {
  const std::vector<double> achieved{1.0, 2.0}, desired{1.05, 1.0};
  Worth its{.reward = std::vector<double>(2), .terminated = std::move(terminated)};
  goal_rewards_of(group)->reward_goals({.rows = 2,
                                        .achieved = reinterpret_cast<const std::byte*>(achieved.data()),
                                        .desired = reinterpret_cast<const std::byte*>(desired.data()),
                                        .reward = its.reward.data(),
                                        .terminated = its.terminated.data()});
  return its;
}

EnvRegistry with_wrappers(const std::vector<std::string>& wrappers) {
  EnvRegistry registry;
  registry.add<Reach>();
  registry.set_wrappers("Reach-v0", wrappers);
  return registry;
}

TEST(GoalRewardsTest, AGroupOfStructsAsksTheirFunctions) {
  EnvGroupOf<Reach> group(3);
  const Worth its = worth(group, {1, 0});
  EXPECT_THAT(its.reward, ElementsAre(0, -1));
  EXPECT_THAT(its.terminated, ElementsAre(1, 0)) << "a struct that says nothing of ends leaves them";
  EnvGroupOf<testing::Walk> plain(1);
  EXPECT_EQ(goal_rewards_of(plain), nullptr);
}

struct EndingReach : Reach {
  static bool compute_terminated(std::span<const double> achieved, std::span<const double> desired) {
    return compute_reward(achieved, desired) == 0;
  }
};

TEST(GoalRewardsTest, EndsThatDependOnTheGoalAreWrittenAnew) {
  EnvGroupOf<EndingReach> group(1);
  EXPECT_THAT(worth(group, {0, 1}).terminated, ElementsAre(1, 0));
}

TEST(GoalRewardsTest, GroupsAroundOthersPassItOn) {
  const auto budget = std::make_shared<RestartBudget>(1);
  RestartingEnvs restarting([](int count) { return std::make_unique<EnvGroupOf<Reach>>(count); }, 2, budget);
  EXPECT_THAT(worth(restarting, {0, 0}).reward, ElementsAre(0, -1));
  const std::vector<std::string> harmless{"time_limit=5", "rescale_action=-2..2", "sticky_actions=0.1", "frame_skip=1",
                                          "frame_stack=2@observation"};
  const auto wrapped = with_wrappers(harmless).make("Reach-v0", 2);
  EXPECT_THAT(worth(*wrapped, {0, 0}).reward, ElementsAre(0, -1));
}

TEST(GoalRewardsTest, WrappersOfRewardsChangeThoseOfGoals) {
  const auto wrapped = with_wrappers({"reward_scale=3", "reward_clip=-2..1"}).make("Reach-v0", 2);
  EXPECT_THAT(worth(*wrapped, {0, 0}).reward, ElementsAre(0, -2));
}

TEST(GoalRewardsTest, WrappersThatTakeRewardAndGoalApartRewardNone) {
  for (const char* wrapper : {"frame_skip=2", "frame_stack=2", "frame_stack=2@achieved_goal", "flatten"})
    EXPECT_EQ(goal_rewards_of(*with_wrappers({wrapper}).make("Reach-v0", 2)), nullptr) << wrapper;
}

struct Nameless : Reach {
  static Spec spec() {
    Spec its = Reach::spec();
    its.observation[2].name = "goal";
    return its;
  }
};
struct OtherType : Reach {
  static double compute_reward(std::span<const float>, std::span<const float>) { return 0; }
};
struct Infinite : Reach {
  static double compute_reward(std::span<const double> achieved, std::span<const double> desired) {
    return 1 / (achieved[0] - desired[0] - 1);
  }
};

TEST(GoalRewardsTest, StructsThatCannotRewardTheirGoalsAreRefusedWhenTheyAreMade) {
  EXPECT_THAT(
      message_of<ConfigError>([] { EnvGroupOf<Nameless> group(1); }),
      HasSubstr("has compute_reward(), and it shows no leaves achieved_goal and desired_goal, but observation"));
  EXPECT_THAT(message_of<ConfigError>([] { EnvGroupOf<OtherType> group(1); }),
              HasSubstr("compute_reward() of its struct takes no goals of float64"));
  EnvGroupOf<Infinite> group(1);
  EXPECT_THAT(message_of<EnvError>([&] {
                (void)worth(group, {0, 0});
              }),
              HasSubstr("in compute_reward(): its reward of a goal is "));
}

// The bits of an episode that is played by flipping what differs.
TEST(BitFlippingTest, WhoFlipsWhatDiffersReachesTheGoal) {
  EnvRegistry registry = EnvRegistry::native();
  registry.set_options("BitFlipping-v0", {{"bits", "6"}});
  const auto group = registry.make("BitFlipping-v0", 1);
  ASSERT_EQ(group->spec().max_episode_steps, 6);
  const EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{4}, buffers.arrays());
  double solved = 0;
  for (int episode = 0; episode < 20; ++episode) {
    bool ended = false;
    for (int step = 0; !ended; ++step) {
      const auto now = buffers.observation<float>(0, 0), goal = buffers.observation<float>(0, 2);
      ASSERT_THAT(buffers.observation<float>(0, 1), ::testing::ElementsAreArray(now));
      std::int64_t action = 0;
      while (action < 5 && now[static_cast<std::size_t>(action)] == goal[static_cast<std::size_t>(action)]) ++action;
      group->step({.discrete = &action}, buffers.arrays());
      ended = buffers.terminated()[0] != 0 || buffers.truncated()[0] != 0;
      ASSERT_EQ(buffers.reward()[0], buffers.terminated()[0] != 0 ? 0 : -1);
    }
    ASSERT_EQ(buffers.metrics(0)[0], buffers.terminated()[0]);
    solved += buffers.metrics(0)[0];
  }
  EXPECT_GE(solved, 19);
}

TEST(BitFlippingTest, AnEpisodeIsCutShortAfterAsManyStepsAsBits) {
  EnvGroupOf<BitFlipping> group(1);
  const EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  for (std::int64_t step = 0, action = 0; step < 15; ++step) {
    EXPECT_EQ(buffers.truncated()[0], 0);
    group.step({.discrete = &action}, buffers.arrays());
  }
  EXPECT_EQ(buffers.truncated()[0], 1);
}

TEST(BitFlippingTest, AStateOfOtherNumbersThanBitsIsRefused) {
  BitFlipping env;
  env.configure({.bits = 2});
  const std::vector<float> good{1, 0, 0, 1}, odd{1, 0, 2, 0};
  EXPECT_EQ(std::get<2>(env.load(std::as_bytes(std::span(good))))[1], 1);
  EXPECT_THAT(message_of<CheckpointError>([&] { (void)env.load(std::as_bytes(std::span(odd))); }),
              HasSubstr("a bit is 2"));
  EXPECT_THROW((void)env.load(std::as_bytes(std::span(odd).first(3))), CheckpointError);
}

}  // namespace
}  // namespace tandem::rl
