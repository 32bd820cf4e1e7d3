// The same shards give the same bits, on whatever number of replicas they are trained.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <string>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

void expect_same_state_on_any_replicas(const Recipe& recipe) {
  const TemporaryFolder scratch;
  for (const std::string replicas : {"1", "2", "4"}) {
    SCOPED_TRACE(recipe.name + " on cpu:" + replicas);
    const auto folder = scratch / replicas;
    expect_success(train(recipe, folder, "cpu:" + replicas));
    EXPECT_EQ(state_of(folder), state_of(scratch / "1"));
    EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), std::stoul(replicas));
    EXPECT_EQ(summary_of(folder).at("env_steps").as_int64(), recipe.steps);
    expect_line_for_every_update(folder);
  }
}

TEST(TopologyTest, CartPoleHasTheSameStateOnAnyReplicas) { expect_same_state_on_any_replicas(cartpole()); }

TEST(TopologyTest, NormalisedPendulumHasTheSameStateOnAnyReplicas) { expect_same_state_on_any_replicas(pendulum()); }

// The machine has a say in the replicas, and none in the shards.
TEST(TopologyTest, DevicesByTheMachineHaveTheSameStateAloneAndOnRanks) {
  const TemporaryFolder scratch;
  for (const std::string ranks : {"1", "2"}) {
    expect_success(tandem({"train", "--env", "CartPole-v1", "--num-envs", "16", "--total-steps", "2048", "--devices",
                           "cpu:auto", "--ranks", ranks, "--quiet", "--run-dir", (scratch / ranks).string()}));
    EXPECT_EQ(summary_of(scratch / ranks).at("shards").as_int64(), 4);
  }
  EXPECT_EQ(state_of(scratch / "1"), state_of(scratch / "2"));
}

// Of those that this process may use.
void bind_to_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  (void)::sched_setaffinity(0, sizeof(one), &one);
}

TEST(TopologyTest, OnOneCoreAReplicaLearnsForAllUnlessTheirNumberDecidesTheNumbers) {
  const TemporaryFolder scratch;
  const auto on_one_core = [](Command training) {
    training.prepare = bind_to_one_core;
    expect_success(training);
  };
  const auto one = scratch / "one", two = scratch / "two";
  on_one_core(train(cartpole(), one, "cpu:2"));
  EXPECT_EQ(state_of(one), uninterrupted_state(cartpole()));
  EXPECT_EQ(summary_of(one).at("replicas").as_array().size(), 1u);
  EXPECT_THAT(read_file(one / "log.txt"),
              ::testing::HasSubstr("devices: cpu:2 is one replica here, since this process may use 1 core"));
  on_one_core(under_strategy("local_steps", train(with_steps(cartpole(), 1024), two, "cpu:2")));
  EXPECT_EQ(summary_of(two).at("replicas").as_array().size(), 2u);
  EXPECT_THAT(read_file(two / "log.txt"), ::testing::Not(::testing::HasSubstr("one replica here")));
}

TEST(TopologyTest, AnotherSeedHasAnotherState) {
  Recipe other = cartpole();
  std::ranges::replace(other.arguments, std::string("11"), std::string("13"));
  EXPECT_NE(uninterrupted_state(other), uninterrupted_state(cartpole()));
}

// The settings that are shipped, for as long as the promise is made.
Recipe shipped(const std::string& env, std::vector<std::string> more) {
  Recipe recipe{env, {"--env", env, "--seed", "3", "--shards", "4"}, 102'400, 0};
  recipe.arguments.insert(recipe.arguments.end(), more.begin(), more.end());
  return recipe;
}

TEST(LongTopologyTest, CartPoleAfter100kSteps) {
  expect_same_state_on_any_replicas(shipped("CartPole-v1", {"--num-envs", "8", "--rollout-steps", "128"}));
}

TEST(LongTopologyTest, NormalisedPendulumAfter100kSteps) {
  expect_same_state_on_any_replicas(
      shipped("Pendulum-v1", {"--set", "normalize.observations=true", "--set", "normalize.rewards=true"}));
}

// What the first threads of a process find out about the machine must not depend on which of them comes first.
TEST(LongTopologyTest, EveryStartMakesTheSameFirstUpdate) {
  const Recipe recipe = with_steps(cartpole(), cartpole().rows);
  const std::string state = uninterrupted_state(recipe);
  constexpr int kRepeats = 300;
  for (int start = 0; start < kRepeats; ++start) {
    const TemporaryFolder scratch;
    expect_success(train(recipe, scratch / "run", "cpu:4"));
    ASSERT_EQ(state_of(scratch / "run"), state) << "start " << start;
  }
}

}  // namespace
}  // namespace tandem::process_test
