// Ranks that are killed at any instant of a DD-PPO training whose others take over: it ends with the bits of a run that
// nobody disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 4;

Recipe small_dd_ppo(std::int64_t steps) {
  return with_steps(with_setting(dd_ppo(), "normalize.observations=true"), steps);
}

// With few checkpoints: these trainings are not about the disk.
Command training(const Recipe& recipe, const fs::path& folder) {
  Command command = train(recipe, folder, "cpu");
  std::ranges::replace(command.arguments, "checkpoint.every_updates=2", "checkpoint.every_updates=200");
  return command;
}

Command with_survivors(const Recipe& recipe, const fs::path& folder, const std::string& on_death) {
  Command command = training(recipe, folder);
  command.arguments.insert(command.arguments.end(), {"--survivors", "take_over"});
  std::vector<std::string> flags{"--on-death", on_death};
  if (on_death == "replace") flags.insert(flags.end(), {"--max-restarts", "100"});
  return as_ranks(kRanks, command, flags);
}

std::string undisturbed_state(const Recipe& recipe) {
  const TemporaryFolder scratch;
  expect_success(training(recipe, scratch / "run"));
  return state_of(scratch / "run");
}

std::string content_of(const fs::path& file) {
  try {
    return read_file(file);
  } catch (const std::exception&) {
    return "";  // it has ended meanwhile
  }
}

// The process that a launcher has running for a rank; 0 when there is none.
pid_t process_of(const Child& launcher, int rank) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), process).ec != std::errc()) continue;
    if (content_of(entry.path() / "status").find(concat("\nPPid:\t", launcher.id(), "\n")) == std::string::npos)
      continue;
    const std::string variables = content_of(entry.path() / "environ");
    if (concat(std::string(1, '\0'), variables)
            .find(concat(std::string(1, '\0'), "RANK=", rank, std::string(1, '\0'))) != std::string::npos)
      return process;
  }
  return 0;
}

bool kill_rank(const Child& launcher, int rank) {
  const pid_t process = process_of(launcher, rank);
  return process != 0 && ::kill(process, SIGKILL) == 0;
}

int count_in(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// After which update the run went on last.
std::int64_t went_on_after(const fs::path& folder) {
  const std::string text = content_of(folder / "log.txt"), words = "goes on after update ";
  const std::size_t at = text.rfind(words);
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + words.size()));
}

// Until log.txt of the run says `part` so many times; false when the launcher ended before.
bool says(Child& launcher, const fs::path& folder, const std::string& part, int times) {
  const Deadline deadline = Deadline::after(kPatience);
  while (count_in(content_of(folder / "log.txt"), part) < times) {
    if (!launcher.is_running() || deadline.expired()) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(SurvivorsTest, AfterTheDeathOfAnyRankTheRunHasTheBitsOfOneThatNobodyDisturbed) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const Recipe recipe = small_dd_ppo(60'000);
  const std::string state = undisturbed_state(recipe);
  for (int victim = 0; victim < kRanks; ++victim) {
    const auto instant = std::chrono::microseconds(std::uniform_int_distribution(0, 50'000)(random));
    SCOPED_TRACE(concat("rank ", victim, " is killed after ", instant.count(), " us, seed ", kSeed));
    const TemporaryFolder scratch;
    const fs::path folder = scratch / "run";
    Child launcher(with_survivors(recipe, folder, "continue"));
    ASSERT_TRUE(reaches_update(launcher, folder, 20));
    std::this_thread::sleep_for(instant);
    ASSERT_TRUE(kill_rank(launcher, victim));
    const Ended ended = launcher.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.out << ended.err;
    EXPECT_EQ(state_of(folder), state);
    EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), 3u);
    expect_line_for_every_update(folder);
    EXPECT_THAT(content_of(folder / "log.txt"), AllOf(HasSubstr(concat("rank ", victim, " is lost (died: SIGKILL)")),
                                                      HasSubstr("the run goes on with rank(s)")));
    EXPECT_GE(went_on_after(folder), 20);
    EXPECT_THAT(ended.err, HasSubstr(concat("rank ", victim, " was ended by SIGKILL")));
  }
}

TEST(SurvivorsTest, TheLastOfAllGoesOnAlone) {
  const Recipe recipe = small_dd_ppo(100'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "continue"));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  int round = 0;
  for (const int victim : {0, 3, 1}) {
    ASSERT_TRUE(kill_rank(launcher, victim));
    ASSERT_TRUE(says(launcher, folder, "goes on after update", ++round));
  }
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.out << ended.err;
  EXPECT_EQ(state_of(folder), undisturbed_state(recipe));
  expect_line_for_every_update(folder);
}

// Of rank 0, whose place another one has meanwhile.
TEST(SurvivorsTest, AReplacementJoinsAndGetsTheStateFromTheOthers) {
  const Recipe recipe = small_dd_ppo(400'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "replace"));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  const Clock::time_point start = Clock::now();
  ASSERT_TRUE(kill_rank(launcher, 0));
  ASSERT_TRUE(says(launcher, folder, "rank 0 has joined, started again 1 time(s)", 1));
  EXPECT_LT(seconds_since(start), 10);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.out << ended.err;
  EXPECT_EQ(state_of(folder), undisturbed_state(recipe));
  EXPECT_EQ(summary_of(folder).at("replicas").as_array().size(), 4u);
  expect_line_for_every_update(folder);
}

TEST(SurvivorsTest, ASignalAfterADeathLeavesACheckpointOfTheSurvivors) {
  const Recipe recipe = small_dd_ppo(100'000'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "continue"));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(kill_rank(launcher, 0));
  ASSERT_TRUE(says(launcher, folder, "goes on after update", 1));
  ASSERT_EQ(::kill(process_of(launcher, 2), SIGTERM), 0);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.out << ended.err;
  expect_inspectable(folder);
  expect_line_for_every_update(folder);
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "stopped");
}

TEST(SurvivorsTest, LaunchersThatLeaveNoSurvivorsAreRefusedBeforeTheStart) {
  const TemporaryFolder scratch;
  const Recipe recipe = small_dd_ppo(1'000);
  const Ended stop = run(with_survivors(recipe, scratch / "stop", "stop"));
  EXPECT_EQ(stop.exit_code, 2) << stop.how();
  EXPECT_THAT(stop.err, AllOf(HasSubstr("dd_ppo.survivors"), HasSubstr("add --on-death continue, or replace")));
  EXPECT_FALSE(fs::exists(scratch / "stop"));

  Command torchrun = training(recipe, scratch / "torchrun");
  torchrun.arguments.insert(torchrun.arguments.end(), {"--survivors", "take_over"});
  torchrun.environment = {"TORCHELASTIC_RUN_ID=t", "RANK=0",           "WORLD_SIZE=1", "LOCAL_RANK=0",
                          "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29400"};
  const Ended refused = run(torchrun);
  EXPECT_EQ(refused.exit_code, 2) << refused.how() << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("torchrun ends all ranks when one dies, and starts all of them again"));
}

// Thirty kills of any ranks at any instants, with replacements: each time the run goes on within 5 s, and a joiner is
// in it within 10 s.
TEST(LongSurvivorsTest, ThirtyKillsDoNotKeepCartPoleFromBeingSolved) {
  constexpr unsigned kSeed = 5;
  constexpr int kKills = 30;
  std::mt19937 random(kSeed);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Recipe recipe{"CartPole", {"--algo", "dd_ppo", "--env", "CartPole-v1", "--seed", "3"}, 2'000'000, 2000};
  Child launcher(with_survivors(recipe, folder, "replace"));
  ASSERT_TRUE(reaches_update(launcher, folder, 5));
  double longest = 0, longest_join = 0;
  for (int kill = 1; kill <= kKills; ++kill) {
    const auto instant = std::chrono::microseconds(std::uniform_int_distribution(0, 200'000)(random));
    const int victim = std::uniform_int_distribution(0, kRanks - 1)(random);
    SCOPED_TRACE(concat("kill ", kill, " of seed ", kSeed, ": rank ", victim, " after ", instant.count(), " us"));
    std::this_thread::sleep_for(instant);
    ASSERT_TRUE(launcher.is_running()) << "it ended before all kills; give it more steps";
    const int rounds = count_in(content_of(folder / "log.txt"), "goes on after update");
    const Clock::time_point start = Clock::now();
    ASSERT_TRUE(kill_rank(launcher, victim));
    ASSERT_TRUE(says(launcher, folder, "goes on after update", rounds + 1)) << launcher.wait().err;
    longest = std::max(longest, seconds_since(start));
    ASSERT_TRUE(says(launcher, folder, " has joined, started again ", kill));
    longest_join = std::max(longest_join, seconds_since(start));
  }
  std::cout << "goes on after " << longest << " s at most, a joiner is in after " << longest_join << " s at most\n";
  EXPECT_LT(longest, 5);
  EXPECT_LT(longest_join, 10);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.err;
  expect_line_for_every_update(folder);
  EXPECT_FALSE(summary_of(folder).at("solved_at_env_steps").is_null());
}

}  // namespace
}  // namespace tandem::process_test
