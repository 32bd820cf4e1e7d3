// SIGKILL at any instant, also within the writing of a checkpoint: the run folder stays readable, and a resume ends
// with the bits of the run that was not killed.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

const std::array<std::string, 3> kDevices{"cpu:1", "cpu:2", "cpu:4"};

void expect_killed(const Command& command) {
  const Ended ended = run(command);
  ASSERT_EQ(ended.signal, SIGKILL) << "exit code " << ended.exit_code << "; the fault did not fire\n" << ended.err;
}

void expect_exact_end(const std::filesystem::path& folder, const std::string& devices, const std::string& state) {
  expect_inspectable(folder);
  expect_success(resume(folder, devices));
  EXPECT_EQ(state_of(folder), state);
  expect_line_for_every_update(folder);
  expect_inspectable(folder);
}

// Instants within the writing of a checkpoint, or within the removal of those that are not kept.
const std::vector<std::string> kWithinCheckpoints{
    "checkpoint.begin:1:kill",          // the very first checkpoint
    "checkpoint.part_written:2:kill",   // some parts of it, no manifest
    "checkpoint.begin:5:kill",          //
    "checkpoint.part_written:23:kill",  // in a later one
    "checkpoint.before_manifest:4:kill",
    "checkpoint.after_manifest:6:kill",
    "checkpoint.before_prune:2:kill",
    "checkpoint.prune:3:kill",  // its manifest is gone, its parts are not
    "checkpoint.pruned:1:kill",
    "file.write:41:kill",  // a part is half written
    "file.sync:30:kill",
    "file.rename:37:kill",
    "file.sync_folder:52:kill",
};

class KillTest : public ::testing::TestWithParam<Recipe> {};

TEST_P(KillTest, WithinACheckpointTheResumeIsExact) {
  const Recipe& recipe = GetParam();
  const std::string state = uninterrupted_state(recipe);
  // Every second one for each recipe: together all of them.
  const std::size_t offset = recipe.name == "Pendulum" ? 1 : 0;
  for (std::size_t i = offset; i < kWithinCheckpoints.size(); i += 2) {
    SCOPED_TRACE(concat(recipe.name, ", ", kWithinCheckpoints[i]));
    const TemporaryFolder scratch;
    expect_killed(train(recipe, scratch / "run", kDevices[i % 2], kWithinCheckpoints[i]));
    expect_exact_end(scratch / "run", kDevices[(i + 1) % kDevices.size()], state);
  }
}

TEST_P(KillTest, AtRandomInstantsTheResumeIsExact) {
  const Recipe& recipe = GetParam();
  const std::string state = uninterrupted_state(recipe);
  constexpr unsigned kSeed = 20261121;
  std::mt19937 random(kSeed + static_cast<unsigned>(recipe.name.size()));
  const auto draw = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  for (int kills = 0, attempts = 0; kills < 4 && attempts < 40; ++attempts) {
    const std::int64_t update = draw(recipe.steps / recipe.rows - 4), delay_us = draw(20'000);
    const std::string& from = kDevices[static_cast<std::size_t>(draw(1))];
    const std::string& to = kDevices[static_cast<std::size_t>(draw(2))];
    const std::string what = concat(recipe.name, ", seed ", kSeed, ": killed ", delay_us, " us after update ", update,
                                    " on ", from, ", resumed on ", to);
    SCOPED_TRACE(what);
    const TemporaryFolder scratch;
    Child child(train(recipe, scratch / "run", from));
    // Before its config.yaml there is no run yet, which another test is about.
    while (child.is_running() && !std::filesystem::exists(scratch / "run" / "config.yaml")) std::this_thread::yield();
    if (!reaches_update(child, scratch / "run", update)) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    child.signal(SIGKILL);
    if (child.wait().signal != SIGKILL) continue;  // this machine was too slow to look: the run has ended
    ++kills;
    std::cout << what << " (" << updates_in(scratch / "run") << " lines)\n";
    expect_exact_end(scratch / "run", to, state);
    if (kills == 4) return;
  }
  FAIL() << "the run ended before it could be killed, again and again";
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
