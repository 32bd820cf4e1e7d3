// Runs with several agents as several processes: the same numbers as in one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(refusal({"--env", "Echo-v0", "--algo", "dd_ppo", "--set", "multi_agent.policies_to_train=middle"}),
              AllOf(HasSubstr("ppo, impala and appo train"), HasSubstr("'middle' is to be trained")));
  EXPECT_THAT(refusal({"--env", "Coin-v0", "--set", "multi_agent.policies=left"}), HasSubstr("Coin-v0 has one agent"));
}

}  // namespace
}  // namespace tandem::process_test
