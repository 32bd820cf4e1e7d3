// IMPALA from the command line: Ctrl-C, resuming, and what its folder says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kBatchRows = 64, kUpdateRows = 4 * kBatchRows;

Recipe impala(const std::string& execution, std::int64_t steps) {
  return {
      "Impala",
      {"--algo", "impala", "--env", "CartPole-v1", "--seed", "11", "--num-envs", "8", "--rollout-steps", "16", "--set",
       "impala.batches_per_update=4", "--set", "policy.hidden=16,16", "--set", "impala.execution=" + execution},
      steps,
      kUpdateRows};
}

TEST(ImpalaTest, CtrlCLeavesACheckpointFromWhichTheRunGoesOn) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Child child(train(impala("threads", 1'000'000'000), folder, "cpu"));
  ASSERT_TRUE(reaches_update(child, folder, 5));
  child.signal(SIGINT);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130) << "signal " << ended.signal << "\n" << ended.err;
  expect_inspectable(folder);
  expect_line_for_every_update(folder);
  const JsonValue stopped = summary_of(folder);
  EXPECT_EQ(stopped.at("end").as_string(), "stopped");
  EXPECT_EQ(stopped.at("algo").as_string(), "impala");
  // The last checkpoint learned from what was on its way, and the summary tells of it.
  EXPECT_EQ(stopped.at("samples_sampled").as_int64(), stopped.at("env_steps").as_int64());
  const Ended inspected = run(tandem({"inspect", folder.string(), "--json"}));
  const JsonValue last = read_json(inspected.out).at("checkpoints").as_array().back();
  EXPECT_EQ(last.at("env_steps").as_int64(), stopped.at("env_steps").as_int64());
  EXPECT_EQ(last.at("score").as_double(), stopped.at("episode_return_mean").as_double());

  const std::int64_t total = stopped.at("env_steps").as_int64() + 10 * kUpdateRows;
  Command resumed = resume(folder, "cpu");
  resumed.arguments.insert(resumed.arguments.end(), {"--total-steps", std::to_string(total)});
  expect_success(resumed);
  const JsonValue summary = summary_of(folder);
  EXPECT_EQ(summary.at("end").as_string(), "finished");
  EXPECT_EQ(summary.at("resumed").as_string(), "inexactly");
  EXPECT_EQ(summary.at("env_steps").as_int64(), total);
  EXPECT_EQ(summary.at("samples_sampled").as_int64(), total);
  EXPECT_EQ(summary.at("samples_trained").as_int64(), total);
  EXPECT_EQ(summary.at("policy_lag_histogram").as_array().size(), 17u);
  EXPECT_THAT(read_file(folder / "log.txt"), HasSubstr("in an order that no two runs have in common"));
  expect_line_for_every_update(folder);
  expect_success(tandem({"eval", folder.string(), "--episodes", "2"}));
}

// Trains on `devices`, is killed in a checkpoint and goes on, on `others`, of which there are so many.
void expect_goes_on_exactly(const Recipe& recipe, const std::string& devices, const std::string& others,
                            std::size_t replicas) {
  const std::string state = uninterrupted_state(recipe);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended killed = run(train(recipe, folder, devices, "checkpoint.after_manifest:3:kill"));
  ASSERT_EQ(killed.signal, SIGKILL) << killed.err;
  expect_success(resume(folder, others));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), replicas);
  EXPECT_EQ(state_of(folder), state);
  expect_line_for_every_update(folder);
}

TEST(ImpalaTest, OnOneThreadAKilledRunGoesOnOnOtherReplicasAsTheUninterruptedOne) {
  Recipe recipe = impala("inline", 12 * kUpdateRows);
  recipe.arguments.insert(recipe.arguments.end(), {"--shards", "4"});
  expect_goes_on_exactly(recipe, "cpu:4", "cpu:2", 2);
}

TEST(ImpalaTest, OnOneThreadAKilledRunGoesOnAsTheUninterruptedOne) {
  expect_goes_on_exactly(impala("inline", 16 * kUpdateRows), "cpu", "cpu", 1);
}

TEST(ImpalaTest, OnOneThreadAKilledRunThatNormalizesGoesOnAsTheUninterruptedOne) {
  Recipe recipe = impala("inline", 12 * kUpdateRows);
  for (const char* setting : {"normalize.observations=true", "normalize.rewards=true"})
    recipe = with_setting(std::move(recipe), setting);
  recipe.arguments.insert(recipe.arguments.end(), {"--shards", "4"});
  expect_goes_on_exactly(recipe, "cpu:2", "cpu:4", 4);
}

// Wherever it is, two learner replicas or not: the process ends with its reason, and the run goes on from a checkpoint.
TEST(ImpalaTest, AStageThatHangsEndsTheProcessAndTheRunCanGoOn) {
  struct Case {
    const char *point, *thread;
  };
  for (const auto& [point, thread] :
       {Case{"impala.collect", "rollout"}, {"impala.load", "loader 0"}, {"impala.learn", "learner"}}) {
    SCOPED_TRACE(point);
    const Recipe recipe = with_setting(impala("threads", 24 * kUpdateRows), "impala.stall_timeout=4");
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    const Ended hung = run(train(recipe, folder, "cpu:2", std::string(point) + ":40:hang"));
    EXPECT_EQ(hung.exit_code, 3) << hung.err;
    EXPECT_THAT(hung.err, HasSubstr(std::string("in one call: ") + thread));
    EXPECT_THAT(hung.err, HasSubstr("have not ended in time: "));
    EXPECT_EQ(summary_of(folder).at("end").as_string(), "failed");
    expect_inspectable(folder);
    expect_success(resume(folder, "cpu:2"));
    EXPECT_EQ(summary_of(folder).at("end").as_string(), "finished");
    expect_line_for_every_update(folder);
  }
}

}  // namespace
}  // namespace tandem::process_test
