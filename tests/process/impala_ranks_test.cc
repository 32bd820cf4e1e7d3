// IMPALA and APPO as several processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>

#include "survivors.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kRankedUpdateRows = 4 * 64;

Recipe ranked_recipe(const std::string& algo, const std::string& execution, std::int64_t steps) {
  Recipe recipe{algo,
                {"--algo", algo, "--env", "CartPole-v1", "--seed", "11", "--shards", "4", "--num-envs", "8",
                 "--rollout-steps", "16", "--set", "impala.batches_per_update=4", "--set", "policy.hidden=16,16",
                 "--set", "impala.execution=" + execution},
                steps,
                kRankedUpdateRows};
  if (algo == "appo") recipe.arguments.insert(recipe.arguments.end(), {"--set", "impala.passes=2"});
  return recipe;
}

void expect_same_impala_on_any_ranks(const Recipe& recipe) {
  const std::string expected = uninterrupted_state(recipe);
  for (const auto& [ranks, devices] : {Topology{2, "cpu:2"}, Topology{3, "cpu:1"}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks on " + devices);
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    expect_success(as_ranks(ranks, train(recipe, folder, devices)));
    EXPECT_EQ(state_of(folder), expected);
    EXPECT_EQ(summary_of(folder).at("env_steps").as_int64(), recipe.steps);
    expect_line_for_every_update(folder);
    expect_inspectable(folder);
  }
}

TEST(ImpalaRanksTest, OnOneThreadEachImpalaHasTheSameStateOnAnyRanks) {
  expect_same_impala_on_any_ranks(ranked_recipe("impala", "inline", 8 * kRankedUpdateRows));
}

TEST(ImpalaRanksTest, OnOneThreadEachAppoThatNormalizesHasTheSameStateOnAnyRanks) {
  Recipe appo = ranked_recipe("appo", "inline", 8 * kRankedUpdateRows);
  for (const char* setting : {"normalize.observations=true", "normalize.rewards=true"})
    appo = with_setting(std::move(appo), setting);
  expect_same_impala_on_any_ranks(appo);
}

TEST(ImpalaRanksTest, TotalsAreOfAllRanks) {
  for (const std::string algo : {"impala", "appo"}) {
    for (const std::string strategy : {"replicated", "divided", "parameter_server"}) {
      SCOPED_TRACE(concat(algo, " ", strategy));
      const std::int64_t steps = 40 * kRankedUpdateRows;
      const TemporaryFolder scratch;
      const auto folder = scratch / "run";
      Command command = under_strategy(strategy, train(ranked_recipe(algo, "threads", steps), folder, "cpu:1"));
      command.arguments.insert(command.arguments.end(), {"--ranks", "2"});
      expect_success(command);
      const JsonValue summary = summary_of(folder);
      EXPECT_EQ(summary.at("end").as_string(), "finished");
      EXPECT_EQ(summary.at("env_steps").as_int64(), steps);
      EXPECT_EQ(summary.at("samples_sampled").as_int64(), steps);
      const std::int64_t trained = summary.at("samples_trained").as_int64();
      EXPECT_GE(trained, steps);
      EXPECT_EQ(trained, 64 * summary.at("learner_steps").as_int64());
      ASSERT_EQ(summary.at("replicas").as_array().size(), 2U);
      for (const JsonValue& replica : summary.at("replicas").as_array())
        EXPECT_EQ(replica.at("rows").as_int64(), trained / 2);
      EXPECT_GT(summary.at("episodes").as_int64(), 100);
      EXPECT_GT(summary.at("rank_wait_ms_max").as_double(), 0);
      if (algo == "impala") {  // of two passes over each batch, the last update may have the second ones alone
        EXPECT_GT(summary.at("rank_env_steps_per_s_min").as_double(), 0);
      }
      expect_line_for_every_update(folder);
    }
  }
}

TEST(ImpalaRanksTest, AKilledRankEndsTheOthersWhichNameItAndTheRunGoesOn) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Child launcher(as_ranks(2, train(ranked_recipe("impala", "threads", 1'000'000'000), folder, "cpu:1"),
                          {"--on-death", "continue"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(signal_rank(launcher, 1, SIGKILL));
  const Ended ended = launcher.wait();
  EXPECT_NE(ended.exit_code, 0);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("[0] tandem: failed: "), HasSubstr("rank 1")));
  const JsonValue failed = summary_of(folder);
  EXPECT_EQ(failed.at("end").as_string(), "failed");
  EXPECT_THAT(failed.at("failure").as_string(), HasSubstr("rank 1"));
  expect_inspectable(folder);

  const std::int64_t total = failed.at("env_steps").as_int64() + 10 * kRankedUpdateRows;
  Command resumed = resume(folder, "cpu:2");
  resumed.arguments.insert(resumed.arguments.end(), {"--total-steps", std::to_string(total)});
  expect_success(resumed);
  const JsonValue summary = summary_of(folder);
  EXPECT_EQ(summary.at("end").as_string(), "finished");
  EXPECT_EQ(summary.at("env_steps").as_int64(), (total + 63) / 64 * 64);
  EXPECT_EQ(summary.at("samples_trained").as_int64(), summary.at("env_steps").as_int64());
}

TEST(ImpalaRanksTest, OnOneThreadEachAKilledRunGoesOnExactlyOnOtherRanks) {
  const Recipe appo = ranked_recipe("appo", "inline", 12 * kRankedUpdateRows);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended killed = run(as_ranks(2, train(appo, folder, "cpu:1", "checkpoint.after_manifest:3:kill")));
  ASSERT_NE(killed.exit_code, 0) << killed.err;
  const Ended again = run(as_ranks(4, resume(folder, "cpu:1", "checkpoint.after_manifest:1:kill")));
  ASSERT_NE(again.exit_code, 0) << again.err;
  expect_success(as_ranks(3, resume(folder, "cpu:1")));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(folder), uninterrupted_state(appo));
  expect_line_for_every_update(folder);
}

TEST(ImpalaRanksTest, ASignalToOneRankEndsAllWithACheckpointFromWhichTheyGoOn) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Child launcher(as_ranks(2, train(ranked_recipe("appo", "threads", 1'000'000'000), folder, "cpu:1")));
  ASSERT_TRUE(reaches_update(launcher, folder, 5));
  ASSERT_TRUE(signal_rank(launcher, 1, SIGTERM));
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.err;
  const JsonValue stopped = summary_of(folder);
  EXPECT_EQ(stopped.at("end").as_string(), "stopped");
  expect_line_for_every_update(folder);

  const std::int64_t total = stopped.at("env_steps").as_int64() + 10 * kRankedUpdateRows;
  Command resumed = resume(folder, "cpu:1");
  resumed.arguments.insert(resumed.arguments.end(), {"--total-steps", std::to_string(total)});
  expect_success(as_ranks(2, resumed));
  EXPECT_EQ(summary_of(folder).at("env_steps").as_int64(), total);
  EXPECT_EQ(summary_of(folder).at("samples_sampled").as_int64(), total);
}

}  // namespace
}  // namespace tandem::process_test
