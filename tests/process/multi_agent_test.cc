// Runs with several agents as several processes: the same numbers as in one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "survivors.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Recipe kuhn_poker() {
  return {"several agents",
          {"--env", "KuhnPoker-v0", "--seed", "5", "--shards", "4", "--num-envs", "8", "--rollout-steps", "32"},
          2048,
          256};
}

TEST(MultiAgentTest, TheSameShardsHaveTheSameStateOnAnyRanks) {
  const TemporaryFolder scratch;
  expect_success(train(kuhn_poker(), scratch / "1", "cpu:1"));
  expect_success(as_ranks(2, train(kuhn_poker(), scratch / "2", "cpu:2")));
  EXPECT_EQ(state_of(scratch / "2"), state_of(scratch / "1"));
  expect_line_for_every_update(scratch / "2");
}

// Killed before the third checkpoint is whole, it goes on from the second one, as other ranks.
TEST(MultiAgentTest, AKilledRunOfRanksGoesOnToTheSameState) {
  const TemporaryFolder scratch;
  const Ended killed =
      run(as_ranks(2, train(kuhn_poker(), scratch / "run", "cpu:1", "checkpoint.before_manifest:3:kill")));
  EXPECT_NE(killed.exit_code, 0);
  expect_success(resume(scratch / "run", "cpu:4"));
  EXPECT_EQ(summary_of(scratch / "run").at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(scratch / "run"), uninterrupted_state(kuhn_poker()));
}

TEST(MultiAgentTest, DdPpoHasTheSameStateOnAnyRanksAndFromItsRecord) {
  const TemporaryFolder scratch;
  Recipe recipe = kuhn_poker();
  recipe.arguments.insert(recipe.arguments.end(), {"--algo", "dd_ppo", "--minibatches", "2"});
  expect_success(as_ranks(2, train(recipe, scratch / "2", "cpu:1")));
  EXPECT_EQ(state_of(scratch / "2"), uninterrupted_state(recipe));
  Recipe early = recipe;
  early.arguments.insert(early.arguments.end(), {"--stragglers", "preempt", "--set", "dd_ppo.sync_frac=0.25"});
  expect_success(as_ranks(2, train(early, scratch / "early", "cpu:2")));
  recipe.arguments.insert(recipe.arguments.end(), {"--replay", (scratch / "early").string()});
  EXPECT_EQ(state_of(scratch / "early"), uninterrupted_state(recipe));
}

// take_over has the numbers of a run of which nobody died; shrink records who rested.
TEST(MultiAgentTest, WhenARankDiesTheOthersGoOnWithItsGamesOrWithout) {
  const Recipe recipe{"several agents of ranks",
                      {"--env", "KuhnPoker-v0", "--algo", "dd_ppo", "--seed", "5", "--shards", "4", "--num-envs", "8",
                       "--rollout-steps", "32", "--minibatches", "2", "--set", "normalize.rewards=true"},
                      100'000,
                      256};
  for (const std::string survivors : {"take_over", "shrink"}) {
    SCOPED_TRACE(survivors);
    const TemporaryFolder scratch;
    Command command = training(recipe, scratch / "run");
    command.arguments.insert(command.arguments.end(), {"--survivors", survivors});
    Child launcher(as_ranks(kSurvivingRanks, command, {"--on-death", "continue"}));
    ASSERT_TRUE(reaches_update(launcher, scratch / "run", 20));
    ASSERT_TRUE(kill_rank(launcher, 2));
    const Ended ended = launcher.wait();
    ASSERT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.err;
    EXPECT_EQ(summary_of(scratch / "run").at("replicas").as_array().size(), 3u);
    Command alone = training(recipe, scratch / "alone");
    if (survivors == "shrink") alone.arguments.insert(alone.arguments.end(), {"--replay", (scratch / "run").string()});
    expect_success(alone);
    EXPECT_EQ(state_of(scratch / "run"), state_of(scratch / "alone"));
  }
}

Recipe kuhn_poker_by(const std::string& algo) {
  return {"several agents by " + algo,
          {"--env", "KuhnPoker-v0", "--algo", algo, "--seed", "5", "--shards", "4", "--num-envs", "16",
           "--rollout-steps", "16", "--set", "impala.execution=inline", "--set", "impala.batches_per_update=2"},
          2048,
          256};
}

TEST(MultiAgentTest, LearnersBesideTheRolloutsHaveTheSameStateOnAnyRanks) {
  for (const char* algo : {"impala", "appo"}) {
    const TemporaryFolder scratch;
    expect_success(train(kuhn_poker_by(algo), scratch / "1", "cpu:1"));
    expect_success(as_ranks(2, train(kuhn_poker_by(algo), scratch / "2", "cpu:2")));
    EXPECT_EQ(state_of(scratch / "2"), state_of(scratch / "1")) << algo;
    EXPECT_GT(summary_of(scratch / "2").at("policy/player_1/decisions").as_int64(), 0);
    const Ended evaluated = run(tandem({"eval", (scratch / "2").string(), "--episodes", "2"}));
    EXPECT_THAT(evaluated.out, HasSubstr("player_1")) << evaluated.err;
    expect_success(
        tandem({"export", (scratch / "2").string(), "--policy", "player_1", "-o", (scratch / "player_1.pt").string()}));
  }
}

TEST(MultiAgentTest, AKilledRunWithLearnersBesideTheRolloutsGoesOnToTheSameState) {
  const TemporaryFolder scratch;
  const Recipe recipe = kuhn_poker_by("appo");
  const Ended killed = run(as_ranks(2, train(recipe, scratch / "run", "cpu:1", "checkpoint.before_manifest:3:kill")));
  EXPECT_NE(killed.exit_code, 0);
  expect_success(resume(scratch / "run", "cpu:4"));
  EXPECT_EQ(summary_of(scratch / "run").at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(scratch / "run"), uninterrupted_state(recipe));
}

std::vector<std::string> with_plugin(std::vector<std::string> words) {
  words.insert(words.end(), {"--plugin", AGENTS_PLUGIN});
  return words;
}

TEST(MultiAgentTest, AnEnvironmentOfAPluginIsTrainedResumedEvaluatedAndExported) {
  const Recipe echo{"a plugin's agents",
                    with_plugin({"--env", "Echo-v0", "--seed", "5", "--num-envs", "8", "--rollout-steps", "32", "--set",
                                 "multi_agent.policies_to_train=left"}),
                    1024, 256};
  const TemporaryFolder scratch;
  const std::string folder = (scratch / "run").string();
  expect_success(train(echo, scratch / "run", "cpu:1"));
  EXPECT_GT(summary_of(scratch / "run").at("policy/left/episodes").as_int64(), 0);
  expect_success(tandem({"resume", folder, "--total-steps", "2048"}));
  const Ended evaluated = run(tandem({"eval", folder, "--episodes", "2"}));
  EXPECT_THAT(evaluated.out, HasSubstr("right")) << evaluated.err;
  expect_success(tandem({"export", folder, "--policy", "right", "-o", (scratch / "right.pt").string()}));
  EXPECT_THAT(run(tandem(with_plugin({"envs"}))).out, HasSubstr("left, right"));
}

TEST(MultiAgentTest, WhatSeveralAgentsDoNotGoWithIsRefusedOfAPluginsToo) {
  const TemporaryFolder scratch;
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = with_plugin({"train", "--run-dir", (scratch / "no").string()});
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = run(tandem(words));
    EXPECT_EQ(ended.exit_code, 2) << ended.out;
    return ended.err;
  };
  EXPECT_THAT(refusal({"--env", "Echo-v0", "--algo", "appo", "--set", "multi_agent.policies_to_train=middle", "--set",
                       "policy.recurrent=gru"}),
              AllOf(HasSubstr("train no policies that remember"), HasSubstr("'middle' is to be trained")));
  EXPECT_THAT(refusal({"--env", "Coin-v0", "--set", "multi_agent.policies=left"}), HasSubstr("Coin-v0 has one agent"));
}

}  // namespace
}  // namespace tandem::process_test
