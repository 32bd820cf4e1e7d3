// Runs whose survivors go on with fewer env groups until those that died are replaced.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "survivors.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

Command shrinking(const Recipe& recipe, const fs::path& folder, const std::vector<std::string>& flags) {
  Command command = training(recipe, folder);
  command.arguments.insert(command.arguments.end(), {"--survivors", "shrink"});
  return as_ranks(kSurvivingRanks, command, flags);
}

// Environment steps of each update.
std::vector<std::int64_t> steps_of_updates(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  std::istringstream lines(read_file(folder / "metrics.jsonl"));
  std::int64_t before = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::int64_t now = read_json(line).at("env_steps").as_int64();
    steps.push_back(now - std::exchange(before, now));
  }
  return steps;
}

std::string last_line(const fs::path& path) {
  std::istringstream lines(read_file(path));
  std::string last;
  for (std::string line; std::getline(lines, line);) last = line;
  return last;
}

// On one rank that makes the steps which the run recorded.
std::string replayed_state(const Recipe& recipe, const fs::path& folder) {
  const TemporaryFolder scratch;
  Command command = training(recipe, scratch / "replay");
  command.arguments.insert(command.arguments.end(), {"--replay", folder.string()});
  expect_success(command);
  return state_of(scratch / "replay");
}

// The run ends at its total of steps, in more updates; checkpoints of fewer ranks load on all.
TEST(ShrinkTest, AfterADeathUpdatesHaveFewerStepsAndTheRecordGivesTheSameBits) {
  const Recipe recipe = small_dd_ppo(200'000);
  const std::int64_t rows = recipe.rows, fewer = rows / 4 * 3;
  for (const int victim : {0, 2}) {
    SCOPED_TRACE(concat("rank ", victim));
    const TemporaryFolder scratch;
    const fs::path folder = scratch / "run";
    Child launcher(shrinking(recipe, folder, {"--on-death", "continue"}));
    ASSERT_TRUE(reaches_update(launcher, folder, 20));
    ASSERT_TRUE(kill_rank(launcher, victim));
    const Ended ended = launcher.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.err;
    const std::vector<std::int64_t> steps = steps_of_updates(folder);
    const auto first = static_cast<std::ptrdiff_t>(went_on_after(folder));
    ASSERT_GE(first, 20);
    EXPECT_TRUE(std::all_of(steps.begin(), steps.begin() + first, [&](auto its) { return its == rows; }));
    EXPECT_TRUE(std::all_of(steps.begin() + first, steps.end(), [&](auto its) { return its == fewer; }));
    const JsonValue summary = summary_of(folder);
    EXPECT_EQ(summary.at("end").as_string(), "finished");
    EXPECT_GE(summary.at("env_steps").as_int64(), recipe.steps);
    EXPECT_LT(summary.at("env_steps").as_int64(), recipe.steps + fewer);
    EXPECT_EQ(summary.at("replicas").as_array().size(), 3u);
    EXPECT_THAT(log_of(folder), HasSubstr("1 of 4 env groups make no steps while ranks are missing"));
    EXPECT_EQ(replayed_state(recipe, folder), state_of(folder));
  }
}

TEST(ShrinkTest, WithAReplacementAllGroupsMakeStepsAgain) {
  const Recipe recipe = small_dd_ppo(400'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(shrinking(recipe, folder, {"--on-death", "replace"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(kill_rank(launcher, 1));
  ASSERT_TRUE(says(launcher, folder, "rank 1 has joined, started again 1 time(s)", 1));
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.err;
  EXPECT_EQ(steps_of_updates(folder).back(), recipe.rows);
  EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), 4u);
  EXPECT_EQ(replayed_state(recipe, folder), state_of(folder));
}

// What is resumed has all ranks again, with survivors or without. A record of updates that the run did not go on with
// is cut off.
TEST(ShrinkTest, ACheckpointOfThoseThatWereLeftIsResumedWithAllGroups) {
  const Recipe recipe = small_dd_ppo(100'000'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(shrinking(recipe, folder, {"--on-death", "continue"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(kill_rank(launcher, 3));
  ASSERT_TRUE(says(launcher, folder, "goes on after update", 1));
  ASSERT_TRUE(reaches_update(launcher, folder, updates_in(folder) + 20));
  launcher.signal(SIGTERM);
  EXPECT_EQ(launcher.wait().exit_code, 130);
  const std::int64_t stopped = summary_of(folder).at("env_steps").as_int64(), more = 10 * recipe.rows;
  const auto expect_resumed = [&](std::int64_t steps, const std::vector<std::string>& flags) {
    Command resumed = resume(folder, "cpu");
    resumed.arguments.insert(resumed.arguments.end(), {"--total-steps", concat(steps)});
    resumed.arguments.insert(resumed.arguments.end(), flags.begin(), flags.end());
    expect_success(as_ranks(kSurvivingRanks, resumed, {"--on-death", "continue"}));
    EXPECT_EQ(summary_of(folder).at("env_steps").as_int64(), steps);
  };
  expect_resumed(stopped + more, {});
  EXPECT_EQ(steps_of_updates(folder).back(), recipe.rows);
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_THAT(last_line(folder / "metrics.jsonl"), HasSubstr("\"rows_cut\":0,"));

  const std::string recorded = read_file(folder / "rollouts.jsonl");
  std::ofstream(folder / "rollouts.jsonl", std::ios::app)
      << concat("{\"updates\":", updates_in(folder) + 1, ",\"steps\":[1,0,0,0]}\n");
  expect_resumed(stopped + 2 * more, {"--survivors", "end"});
  EXPECT_EQ(read_file(folder / "rollouts.jsonl"), recorded);
  EXPECT_THAT(last_line(folder / "metrics.jsonl"), Not(HasSubstr("rows_cut")));
  expect_line_for_every_update(folder);
}

}  // namespace
}  // namespace tandem::process_test
