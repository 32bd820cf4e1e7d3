// SIGKILL at any instant of a run that learns from a replay, also while a checkpoint is written beside it: a resume, on
// whatever devices, ends with the bits of the run that was not killed, the replay included.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>

#include "faults.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kReplayKillSeed = 20261127;

// SAC on Pendulum, in two shards. Segments of the replay have 51 KB, so that they are files of their own which later
// checkpoints take over; rows are overwritten before the end. Prioritised, since priorities are state, too.
Recipe sac() {
  return {"SAC",
          {"--algo",          "sac",
           "--env",           "Pendulum-v1",
           "--seed",          "5",
           "--shards",        "2",
           "--num-envs",      "8",
           "--rollout-steps", "512",
           "--set",           "policy.hidden=16,16",
           "--set",           "sac.replay_size=131072",
           "--set",           "sac.batch_size=32",
           "--set",           "sac.train_every=32",
           "--set",           "sac.learning_starts=4096",
           "--set",           "sac.priority_alpha=0.6"},
          163'840,
          4096};
}

// At which instant it is killed: at the passage of a place within the writing of a checkpoint, or some time after an
// update.
struct KillInstant {
  std::string place;  // empty: at any time
  int update = 0;
  std::chrono::microseconds delay{0};
};

std::string text_of(const KillInstant& instant) {
  return instant.place.empty() ? concat(instant.delay.count(), " us after update ", instant.update) : instant.place;
}

// Places within the writing of a checkpoint, and how often a run passes them at the least.
struct ReplayKillPlace {
  const char* name;
  int passages;
};
constexpr auto kReplayKillPlaces = std::to_array<ReplayKillPlace>({{"checkpoint.begin", 4},
                                                                   {"checkpoint.part_written", 40},
                                                                   {"checkpoint.part_kept", 24},
                                                                   {"checkpoint.before_manifest", 4},
                                                                   {"checkpoint.after_manifest", 4},
                                                                   {"file.write", 100},
                                                                   {"file.sync", 40},
                                                                   {"file.rename", 40}});

KillInstant any_instant(const Recipe& recipe, Dice& dice) {
  if (dice.below(2) == 0) {
    const ReplayKillPlace& place = kReplayKillPlaces.at(static_cast<std::size_t>(dice.below(kReplayKillPlaces.size())));
    return {.place = concat(place.name, ":", 1 + dice.below(place.passages), ":kill")};
  }
  return {.place = "",
          .update = 1 + dice.below(static_cast<int>(recipe.steps / recipe.rows) - 4),
          .delay = dice.within(std::chrono::milliseconds(20))};
}

// Whether the run was killed, and not too fast for it.
bool kill_at(const KillInstant& instant, const Recipe& recipe, const fs::path& folder, const std::string& devices) {
  Child child(train(recipe, folder, devices, instant.place));
  if (instant.place.empty()) {
    if (!reaches_update(child, folder, instant.update)) return false;
    std::this_thread::sleep_for(instant.delay);
    child.signal(SIGKILL);
  }
  return child.wait().signal == SIGKILL;
}

// What the last checkpoint has of each shard: the digests of its replay, of its environments and of its streams.
std::string shards_of(const fs::path& folder, const Recipe& recipe) {
  const fs::path checkpoints = folder / "checkpoints";
  const std::string updates = concat(std::string(12, '0'), recipe.steps / recipe.rows);
  const JsonValue manifest =
      read_json_file(checkpoints / ("u" + updates.substr(updates.size() - 12)) / "manifest.json");
  std::string digests;
  for (const JsonValue& part : manifest.at("parts").as_array()) {
    const std::string part_name = part.at("name").as_string();
    if (part_name.starts_with("replay-") || part_name.starts_with("env-group-") || part_name.starts_with("shard-"))
      digests += concat(part.at("sha256").as_string(), " ", part_name, "\n");
  }
  return digests;
}

// How an uninterrupted run ends.
struct ReplayEnd {
  std::string state, shards;
};
ReplayEnd end_of(const fs::path& folder, const Recipe& recipe) {
  return {.state = state_of(folder), .shards = shards_of(folder, recipe)};
}
ReplayEnd uninterrupted_end(const Recipe& recipe) {
  const TemporaryFolder scratch;
  expect_success(train(recipe, scratch / "run", "cpu:1"));
  return end_of(scratch / "run", recipe);
}

void expect_end(const fs::path& folder, const Recipe& recipe, const ReplayEnd& expected) {
  const ReplayEnd its = end_of(folder, recipe);
  EXPECT_EQ(its.state, expected.state);
  EXPECT_EQ(its.shards, expected.shards);
  EXPECT_NE(its.shards.find(" replay-1.steps."), std::string::npos) << "no segment is a file of its own";
}

void expect_same_end_after(int kills, const Recipe& recipe, unsigned seed) {
  const ReplayEnd expected = uninterrupted_end(recipe);
  constexpr std::array<const char*, 2> kDevices{"cpu:1", "cpu:2"};
  Dice dice(seed);
  int made = 0;
  for (int attempt = 0; made < kills && attempt < 5 * kills; ++attempt) {
    const KillInstant instant = any_instant(recipe, dice);
    const char *from = kDevices.at(static_cast<std::size_t>(dice.below(2))),
               *to = kDevices.at(static_cast<std::size_t>(dice.below(2)));
    const std::string what =
        concat("seed ", seed, ", kill ", made, ": ", text_of(instant), " on ", from, ", resumed on ", to);
    SCOPED_TRACE(what);
    const TemporaryFolder scratch;
    if (!kill_at(instant, recipe, scratch / "run", from)) continue;
    std::cout << what << " (" << updates_in(scratch / "run") << " lines)\n";
    ++made;
    if (!fs::exists(scratch / "run" / "config.yaml")) continue;  // before there was a run
    expect_success(resume(scratch / "run", to));
    expect_end(scratch / "run", recipe, expected);
    expect_line_for_every_update(scratch / "run");
  }
  EXPECT_EQ(made, kills) << "the run ended before it could be killed, again and again";
}

TEST(ReplayKillTest, TheResumeIsExact) { expect_same_end_after(2, with_steps(sac(), 32'768), kReplayKillSeed); }

TEST(LongReplayKillTest, AtTwentyInstantsTheResumeIsExact) { expect_same_end_after(20, sac(), kReplayKillSeed + 1); }

// As ranks, whose leader keeps the record: what the other rank's shards hold comes to its checkpoints, too.
TEST(ReplayKillTest, ARunOfRanksGoesOnInOneProcess) {
  const Recipe recipe = with_steps(sac(), 40'960);
  const ReplayEnd expected = uninterrupted_end(recipe);
  const TemporaryFolder scratch;
  Command training = train(recipe, scratch / "run", "cpu:1", "checkpoint.part_kept:7:kill");
  training.arguments.insert(training.arguments.end(), {"--ranks", "2"});
  EXPECT_NE(run(training).exit_code, 0);
  ASSERT_TRUE(fs::exists(scratch / "run" / "checkpoints"));
  expect_success(resume(scratch / "run", "cpu:1"));
  expect_end(scratch / "run", recipe, expected);
}

}  // namespace
}  // namespace tandem::process_test
