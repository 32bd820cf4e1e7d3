// SIGKILL at any instant, also within the writing of a checkpoint: the run folder stays readable, and a resume ends
// with the bits of the run that was not killed.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "faults.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

const std::array<std::string, 3> kDevices{"cpu:1", "cpu:2", "cpu:4"};

const std::string& devices_of(int choice) { return kDevices.at(static_cast<std::size_t>(choice)); }

void expect_killed(const Command& command) {
  const Ended ended = run(command);
  ASSERT_EQ(ended.signal, SIGKILL) << "exit code " << ended.exit_code << "; the fault did not fire\n" << ended.err;
}

void expect_exact_end(const std::filesystem::path& folder, const std::string& resumed_on, const std::string& state) {
  expect_inspectable(folder);
  expect_success(resume(folder, resumed_on));
  EXPECT_EQ(state_of(folder), state);
  expect_line_for_every_update(folder);
  expect_inspectable(folder);
}

// Places within the writing of a checkpoint, or within the removal of those that are not kept. CartPole dies at every
// second one, Pendulum at the others.
constexpr auto kPlaces = std::to_array<std::string_view>({
    "checkpoint.begin",            //
    "checkpoint.part_written",     //
    "checkpoint.before_manifest",  //
    "checkpoint.after_manifest",   //
    "checkpoint.before_prune",     //
    "checkpoint.prune",            // its manifest is gone, its parts are not
    "checkpoint.pruned",           //
    "file.write",                  // a part is half written
    "file.open",                   //
    "file.sync",                   //
    "file.sync_folder",            //
    "file.rename",                 //
    "file.done",                   //
});
constexpr int kRecipes = 2;
// Of each recipe: instants at any time of a run, and the least that lie within the writing of a checkpoint.
constexpr int kAnyTime = 4, kWithinCheckpoints = 4;
static_assert(kPlaces.size() + kRecipes * kAnyTime >= 20, "so many random instants");
static_assert(kRecipes * kWithinCheckpoints >= 8, "so many of them within checkpoints");

constexpr unsigned kKillSeed = 20261121;

struct UninterruptedRun {
  std::string state;
  std::int64_t checkpoints = 0, files = 0;  // written in all, and of each
};

UninterruptedRun uninterrupted(const Recipe& recipe) {
  const TemporaryFolder scratch;
  expect_success(train(recipe, scratch / "run", "cpu:1"));
  UninterruptedRun whole{.state = state_of(scratch / "run"), .checkpoints = recipe.steps / recipe.rows / 2};
  for (const auto& kept : std::filesystem::directory_iterator(scratch / "run" / "checkpoints"))
    whole.files =
        std::distance(std::filesystem::directory_iterator(kept.path()), std::filesystem::directory_iterator());
  return whole;
}

// The first and the last passage of a place that lie within checkpoints.
std::pair<std::int64_t, std::int64_t> passages_of(std::string_view place, const UninterruptedRun& whole) {
  // config.yaml comes before, the summary and the picture after all that checkpoints write.
  if (place.starts_with("file.")) return {whole.files, whole.checkpoints * whole.files};
  if (place == "checkpoint.part_written") return {1, whole.checkpoints * (whole.files - 1)};
  if (place.find("prune") != std::string_view::npos) return {1, whole.checkpoints - 4};  // three last and the best stay
  return {1, whole.checkpoints};
}

// Whether the folder of a checkpoint is there and its manifest is not.
bool has_unfinished_checkpoint(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "checkpoints")) return false;
  for (const auto& checkpoint : std::filesystem::directory_iterator(run / "checkpoints")) {
    if (!std::filesystem::exists(checkpoint.path() / "manifest.json")) return true;
  }
  return false;
}

class KillTest : public ::testing::TestWithParam<Recipe> {};

TEST_P(KillTest, WithinACheckpointTheResumeIsExact) {
  const Recipe& recipe = GetParam();
  const UninterruptedRun whole = uninterrupted(recipe);
  ASSERT_GT(whole.files, 1) << "no checkpoint was kept";
  const unsigned seed = kKillSeed + 100 + static_cast<unsigned>(recipe.name.size());
  Dice dice(seed);
  int kills = 0, within = 0;
  const std::size_t offset = recipe.name == "Pendulum" ? 1 : 0;
  for (std::size_t i = offset; i < kPlaces.size(); i += kRecipes) {
    const auto [first, last] = passages_of(kPlaces[i], whole);
    const std::int64_t passage = first + dice.below(static_cast<int>(last - first + 1));
    const std::string fault = concat(kPlaces[i], ":", passage, ":kill");
    const int from = dice.below(2), to = (from + 1 + dice.below(2)) % 3;
    const std::string what =
        concat(recipe.name, ", seed ", seed, ": ", fault, " on ", devices_of(from), ", resumed on ", devices_of(to));
    SCOPED_TRACE(what);
    std::cout << what << "\n";
    const TemporaryFolder scratch;
    expect_killed(train(recipe, scratch / "run", devices_of(from), fault));
    if (HasFatalFailure()) return;
    ++kills;
    within += kPlaces[i].starts_with("checkpoint.") || has_unfinished_checkpoint(scratch / "run") ? 1 : 0;
    expect_exact_end(scratch / "run", devices_of(to), whole.state);
  }
  EXPECT_EQ(kills, static_cast<int>((kPlaces.size() - offset + 1) / kRecipes));
  EXPECT_GE(within, kWithinCheckpoints);
}

TEST_P(KillTest, AtRandomInstantsTheResumeIsExact) {
  const Recipe& recipe = GetParam();
  const std::string state = uninterrupted_state(recipe);
  const unsigned seed = kKillSeed + static_cast<unsigned>(recipe.name.size());
  Dice dice(seed);
  int kills = 0;
  for (int attempts = 0; kills < kAnyTime && attempts < 40; ++attempts) {
    const std::int64_t update = dice.below(static_cast<int>(recipe.steps / recipe.rows) - 3);
    const std::chrono::microseconds delay = dice.within(std::chrono::milliseconds(20));
    const std::string& from = devices_of(dice.below(2));
    const std::string& to = devices_of(dice.below(3));
    const std::string what = concat(recipe.name, ", seed ", seed, ": killed ", delay.count(), " us after update ",
                                    update, " on ", from, ", resumed on ", to);
    SCOPED_TRACE(what);
    const TemporaryFolder scratch;
    Child child(train(recipe, scratch / "run", from));
    // Before its config.yaml there is no run yet, which another test is about.
    while (child.is_running() && !std::filesystem::exists(scratch / "run" / "config.yaml")) std::this_thread::yield();
    if (!reaches_update(child, scratch / "run", update)) continue;
    std::this_thread::sleep_for(delay);
    child.signal(SIGKILL);
    if (child.wait().signal != SIGKILL) continue;  // this machine was too slow to look: the run has ended
    ++kills;
    std::cout << what << " (" << updates_in(scratch / "run") << " lines)\n";
    expect_exact_end(scratch / "run", to, state);
  }
  EXPECT_EQ(kills, kAnyTime) << "seed " << seed << ": the run ended before it could be killed, again and again";
}

TEST_P(KillTest, TwiceTheResumeIsExact) {
  const Recipe& recipe = GetParam();
  const std::string state = uninterrupted_state(recipe);
  const TemporaryFolder scratch;
  expect_killed(train(recipe, scratch / "run", "cpu:2", "checkpoint.part_written:17:kill"));
  expect_inspectable(scratch / "run");
  expect_killed(resume(scratch / "run", "cpu:1", "checkpoint.before_manifest:2:kill"));
  expect_exact_end(scratch / "run", "cpu:4", state);
}

INSTANTIATE_TEST_SUITE_P(Recipes, KillTest, ::testing::Values(cartpole(), pendulum()),
                         [](const auto& tested) { return tested.param.name; });

TEST(EarlyKillTest, BeforeTheFirstCheckpointTheRunStartsAgain) {
  const Recipe recipe = cartpole();
  const std::string state = uninterrupted_state(recipe);
  const TemporaryFolder scratch;
  expect_killed(train(recipe, scratch / "run", "cpu:2", "metrics.append:2:kill"));
  EXPECT_EQ(updates_in(scratch / "run"), 1);
  expect_exact_end(scratch / "run", "cpu:2", state);
}

TEST(EarlyKillTest, WithinTheFirstCheckpointTheRunStartsAgain) {
  const Recipe recipe = with_steps(cartpole(), 1024);
  const std::string state = uninterrupted_state(recipe);
  const TemporaryFolder scratch;
  for (const std::string point : {"checkpoint.begin", "checkpoint.part_written"}) {
    SCOPED_TRACE(point);
    expect_killed(train(recipe, scratch / point, "cpu:1", point + ":1:kill"));
    expect_exact_end(scratch / point, "cpu:2", state);
  }
}

TEST(EarlyKillTest, BeforeTheSettingsAreWrittenTheFolderCanBeUsed) {
  const Recipe recipe = with_steps(cartpole(), 1024);
  const TemporaryFolder scratch;
  for (const std::string point : {"file.open", "file.write", "file.sync", "file.rename"}) {
    SCOPED_TRACE(point);
    const auto folder = scratch / point;
    expect_killed(train(recipe, folder, "cpu:1", point + ":1:kill"));
    const Ended resumed = run(resume(folder, "cpu:1"));
    EXPECT_EQ(resumed.exit_code, 2) << resumed.err;
    expect_success(train(recipe, folder, "cpu:1"));
    expect_line_for_every_update(folder);
  }
}

TEST(EarlyKillTest, OnceTheSettingsAreWrittenTheRunCanBeResumed) {
  const Recipe recipe = with_steps(cartpole(), 1024);
  const TemporaryFolder scratch;
  for (const std::string point : {"file.sync_folder", "file.done"}) {
    SCOPED_TRACE(point);
    expect_killed(train(recipe, scratch / point, "cpu:1", point + ":1:kill"));
    expect_exact_end(scratch / point, "cpu:1", uninterrupted_state(recipe));
  }
}

// After its last update: the last checkpoint is there, summary.json or the picture is not.
TEST(LateKillTest, BeforeTheSummaryTheResumeTellsWhatTheRunWouldHave) {
  const Recipe recipe = cartpole();
  const TemporaryFolder scratch;
  expect_success(train(recipe, scratch / "whole", "cpu:1"));
  const JsonValue whole = summary_of(scratch / "whole");
  const std::int64_t checkpoints = recipe.steps / recipe.rows / 2;
  expect_killed(train(recipe, scratch / "run", "cpu:1", concat("checkpoint.after_manifest:", checkpoints, ":kill")));
  EXPECT_FALSE(std::filesystem::exists(scratch / "run" / "summary.json"));
  expect_exact_end(scratch / "run", "cpu:1", whole.at("state_sha256").as_string());
  const JsonValue resumed = summary_of(scratch / "run");
  for (const char* key : {"updates", "env_steps", "episodes", "episode_return_mean", "episode_length_mean",
                          "policy_loss", "value_loss", "entropy", "learning_rate", "params_sha256", "end"}) {
    EXPECT_TRUE(resumed.at(key) == whole.at(key)) << key;
  }
}

}  // namespace
}  // namespace tandem::process_test
