// Ctrl-C, SIGTERM, a full disk, and environments that cannot be saved: what is said, and what the folder is good for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;

// Without schedules, which depend on the number of steps: a stopped run must equal one that was shorter from the start.
Recipe endless(Recipe recipe) {
  recipe.arguments.insert(recipe.arguments.end(), {"--set", "ppo.learning_rate_schedule=constant", "--set",
                                                   "ppo.clip_range_schedule=constant"});
  return with_steps(recipe, 1'000'000'000);
}

// Stops it by the signal at about its fifth update; how many updates it had made then.
std::int64_t stop_by(int signal, const Recipe& recipe, const std::filesystem::path& folder) {
  Child child(train(recipe, folder, "cpu:2"));
  EXPECT_TRUE(reaches_update(child, folder, 5));
  child.signal(signal);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130) << "signal " << ended.signal << "\n" << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("to go on: " + std::string(TANDEM_PROGRAM) + " resume " + folder.string()));
  expect_inspectable(folder);
  expect_line_for_every_update(folder);
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "stopped");
  return summary_of(folder).at("updates").as_int64();
}

class StopTest : public ::testing::TestWithParam<int> {};

TEST_P(StopTest, LeavesACheckpointOfItsLastUpdateThatIsResumedExactly) {
  const Recipe recipe = endless(GetParam() == SIGINT ? cartpole() : pendulum());
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const std::int64_t stopped = stop_by(GetParam(), recipe, folder);
  const std::int64_t steps = (stopped + 4) * recipe.rows;
  Command resumed = resume(folder, "cpu:4");
  resumed.arguments.insert(resumed.arguments.end(), {"--total-steps", std::to_string(steps)});
  expect_success(resumed);
  EXPECT_EQ(state_of(folder), uninterrupted_state(with_steps(recipe, steps)));
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "finished");
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_THAT(read_file(folder / "log.txt"), HasSubstr(concat("goes on after update ", stopped, ",")));
  expect_line_for_every_update(folder);
}

INSTANTIATE_TEST_SUITE_P(Signals, StopTest, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& tested) { return tested.param == SIGINT ? "CtrlC" : "SIGTERM"; });

TEST(FullDiskTest, DuringACheckpointNamesTheFileAndTheEarlierOneIsResumedExactly) {
  const Recipe recipe = with_steps(cartpole(), 4096);
  const std::string state = uninterrupted_state(recipe);
  for (const std::string fault : {"file.open:20:enospc", "file.write:60:enospc", "file.sync:24:enospc"}) {
    SCOPED_TRACE(fault);
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    const Ended ended = run(train(recipe, folder, "cpu:2", fault));
    EXPECT_EQ(ended.exit_code, 3) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr((folder / "checkpoints" / "u0000000000").string()));
    EXPECT_THAT(ended.err, HasSubstr("No space left on device"));
    EXPECT_THAT(read_file(folder / "log.txt"), HasSubstr("No space left on device"));
    expect_inspectable(folder);
    expect_success(resume(folder, "cpu:2"));
    EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly") << "no earlier checkpoint was used";
    EXPECT_EQ(state_of(folder), state);
    expect_line_for_every_update(folder);
  }
}

TEST(FullDiskTest, DuringALineOfMetricsNamesTheFileAndTheRunIsResumedExactly) {
  const Recipe recipe = with_steps(pendulum(), 4096);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended ended = run(train(recipe, folder, "cpu:2", "metrics.append:8:enospc"));
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr((folder / "metrics.jsonl").string()));
  expect_inspectable(folder);
  expect_success(resume(folder, "cpu:2"));
  EXPECT_EQ(state_of(folder), uninterrupted_state(recipe));
  expect_line_for_every_update(folder);
}

TEST(InexactResumeTest, OfAnEnvironmentThatCannotBeSavedIsSaidAndRecorded) {
  const Recipe recipe{"Drift",
                      {"--plugin", DRIFT_PLUGIN, "--env", "Drift-v0", "--seed", "5", "--num-envs", "4",
                       "--rollout-steps", "32", "--set", "policy.hidden=8"},
                      2048,
                      128};
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended killed = run(train(recipe, folder, "cpu:1", "checkpoint.after_manifest:3:kill"));
  ASSERT_EQ(killed.signal, SIGKILL) << killed.err;
  const Ended resumed = run(tandem({"resume", folder.string()}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  constexpr const char* kSaid = "Drift-v0 cannot save its state, so new episodes were started";
  EXPECT_THAT(resumed.out, HasSubstr(kSaid));
  EXPECT_THAT(read_file(folder / "log.txt"), HasSubstr(kSaid));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "inexactly");
  expect_line_for_every_update(folder);
}

}  // namespace
}  // namespace tandem::process_test
