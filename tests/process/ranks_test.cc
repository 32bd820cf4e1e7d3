// A training run as several processes: the same numbers as in one, whatever stops it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_same_state_on_any_ranks(const Recipe& recipe) {
  const std::string expected = uninterrupted_state(recipe);
  for (const auto& [topology, replicas] : {std::pair{Topology{2, "cpu:2"}, 4u}, std::pair{Topology{4, "cpu:1"}, 4u},
                                           std::pair{Topology{3, "cpu:1"}, 3u}}) {
    const auto& [ranks, devices] = topology;
    SCOPED_TRACE(recipe.name + " as " + std::to_string(ranks) + " ranks on " + devices);
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    expect_success(as_ranks(ranks, train(recipe, folder, devices)));
    EXPECT_EQ(state_of(folder), expected);
    const JsonValue summary = summary_of(folder);
    const auto& work = summary.at("replicas").as_array();
    EXPECT_EQ(work.size(), replicas);
    for (const JsonValue& replica : work) EXPECT_GT(replica.at("rows").as_int64(), 0);
    expect_line_for_every_update(folder);
    expect_inspectable(folder);
  }
}

TEST(RanksTest, CartPoleHasTheSameStateOnAnyRanks) { expect_same_state_on_any_ranks(cartpole()); }

TEST(RanksTest, NormalisedPendulumHasTheSameStateOnAnyRanks) { expect_same_state_on_any_ranks(pendulum()); }

// Rank 0 is killed while it writes a checkpoint; the run goes on as another number of ranks, and then as one process.
TEST(RanksTest, AKilledRunGoesOnExactlyOnOtherRanks) {
  const Recipe recipe = with_steps(pendulum(), 4096);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended killed =
      run(as_ranks(2, train(recipe, folder, "cpu:2", "checkpoint.before_manifest:3:kill"), {"--on-death", "continue"}));
  EXPECT_NE(killed.exit_code, 0);
  EXPECT_THAT(killed.err, AllOf(HasSubstr("[1] tandem: failed: "), HasSubstr("rank 0")));
  const Ended again = run(as_ranks(4, resume(folder, "cpu:1", "checkpoint.before_manifest:3:kill")));
  EXPECT_NE(again.exit_code, 0);
  expect_success(resume(folder, "cpu:2"));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(folder), uninterrupted_state(recipe));
  expect_line_for_every_update(folder);
}

TEST(RanksTest, AStopEndsAllRanksAfterTheSameUpdateWithACheckpoint) {
  const Recipe recipe = with_steps(cartpole(), 1'000'000'000);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Child child(as_ranks(2, train(recipe, folder, "cpu:1")));
  EXPECT_TRUE(reaches_update(child, folder, 3));
  child.signal(SIGTERM);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.out << ended.err;
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "stopped");
  expect_inspectable(folder);
  expect_line_for_every_update(folder);
}

TEST(RanksTest, WhatTheUserCanFixIsSaidByRank0AndEndsAll) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  // Of 4 shards 2, 1 and 1 fall to 3 ranks: too few for two replicas on rank 1.
  const Ended ended = run(as_ranks(3, train(cartpole(), folder, "cpu:2")));
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("[0] tandem: "), HasSubstr("shards"), HasSubstr("for a new run 8 shards"),
                               Not(HasSubstr("[1]"))));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

// Rank 1's LibTorch computes with what every processor has.
TEST(RanksTest, WhereLibTorchChoosesOtherInstructionsNothingIsBegunAndRankZeroSaysWhy) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Command training = train(cartpole(), folder, "cpu:1");
  std::string line = "if [ $RANK = 1 ]; then export ATEN_CPU_CAPABILITY=default; fi; exec " + training.program.string();
  for (const std::string& word : training.arguments) line += " '" + word + "'";
  const Ended ended = run(as_ranks(2, {.program = "sh", .arguments = {"-c", line}}));
  EXPECT_EQ(ended.exit_code, 2) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("[0] tandem: "), HasSubstr("DEFAULT on rank 1"),
                               HasSubstr("ATEN_CPU_CAPABILITY=default"), Not(HasSubstr("[1]"))));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

// The times of a rank are its whole update, and the figures are of all ranks.
TEST(RanksTest, MetricsAreOfAllRanks) {
  const TemporaryFolder scratch;
  Recipe recipe = with_steps(cartpole(), 1024);
  recipe.arguments.insert(recipe.arguments.end(), {"--set", "ppo.kl_coef=0.2"});
  expect_success(as_ranks(3, train(recipe, scratch / "three", "cpu:1")));
  const JsonValue three = summary_of(scratch / "three");
  for (const std::string figure : {"sample_ms", "learn_ms", "wait_ms", "env_steps_per_s"}) {
    const auto at = [&](const char* which) { return three.at("rank_" + figure + which).as_double(); };
    EXPECT_GT(at("_min"), 0) << figure;
    EXPECT_LE(at("_min"), at("_mean")) << figure;
    EXPECT_LE(at("_mean"), at("_max")) << figure;
  }
  EXPECT_LT(three.at("rank_env_steps_per_s_min").as_double(), three.at("rank_env_steps_per_s_max").as_double())
      << "of four shards the first rank has two";
  EXPECT_DOUBLE_EQ(three.at("rank_sample_ms_max").as_double(), three.at("sample_ms").as_double());
  // Each learns from its own rows: what the run reports is their mean by rows, and lies between them.
  for (const std::string figure : {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction"}) {
    EXPECT_LE(three.at("rank_" + figure + "_min").as_double(), three.at(figure).as_double()) << figure;
    EXPECT_GE(three.at("rank_" + figure + "_max").as_double(), three.at(figure).as_double()) << figure;
  }
  EXPECT_LT(three.at("rank_value_loss_min").as_double(), three.at("rank_value_loss_max").as_double());
  EXPECT_EQ(2 * three.at("rank_rows_trained_min").as_double(), three.at("rank_rows_trained_max").as_double());
  EXPECT_EQ(three.at("kl_coef").as_double(), 0.2);
  expect_success(train(with_steps(cartpole(), 1024), scratch / "one", "cpu:1"));
  const JsonValue one = summary_of(scratch / "one");
  EXPECT_EQ(one.find("rank_wait_ms_min"), nullptr);
  EXPECT_EQ(one.find("kl_coef"), nullptr);
}

TEST(RanksTest, ShardsOfThemselvesAreAsManyAsTheRanksCanShare) {
  Recipe recipe = with_steps(cartpole(), 256);
  std::erase(recipe.arguments, "--shards");
  std::erase(recipe.arguments, "4");
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  expect_success(as_ranks(3, train(recipe, folder, "cpu:2")));
  EXPECT_EQ(summary_of(folder).at("shards").as_int64(), 8);
  EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), 6U);
}

TEST(RanksTest, SayingHowRanksExchangeWithoutALauncherIsRefused) {
  const TemporaryFolder scratch;
  Command alone = train(cartpole(), scratch / "run", "cpu:1");
  alone.arguments.insert(alone.arguments.end(), {"--backend", "tcp"});
  const Ended ended = run(alone);
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("no launcher started this process"));
}

}  // namespace
}  // namespace tandem::process_test
