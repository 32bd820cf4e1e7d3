// Ranks that are killed at any instant of a training whose others take over: it ends with the bits of a run that nobody
// disturbed.
#include "survivors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "faults.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = kSurvivingRanks;

std::vector<JsonValue> lines_of(const fs::path& folder) {
  std::vector<JsonValue> lines;
  std::istringstream in(read_file(folder / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) lines.push_back(read_json(line));
  return lines;
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
    const std::optional<Loss> loss = lose_rank(launcher, folder, victim, SIGKILL);
    ASSERT_TRUE(loss) << log_of(folder);
    EXPECT_LE(loss->seconds(), to_go_on_within());
    const Ended ended = launcher.wait();
    expect_complete(ended, folder, state, 3);
    EXPECT_THAT(log_of(folder), AllOf(HasSubstr(concat("rank ", victim, " is lost (died: SIGKILL)")),
                                      HasSubstr("the run goes on with rank(s)")));
    EXPECT_GE(went_on_after(folder), 20);
    EXPECT_THAT(ended.err, HasSubstr(concat("rank ", victim, " was ended by SIGKILL")));
  }
}

TEST(SurvivorsTest, PpoHasTheBitsOfAnUndisturbedRunUnderAnyStrategyThatWaitsForAll) {
  const Recipe recipe = with_steps(cartpole(), 40'960);
  const std::string state = undisturbed_state(recipe);
  for (const char* strategy : {"replicated", "divided", "parameter_server", "sync_replicas"}) {
    SCOPED_TRACE(strategy);
    const TemporaryFolder scratch;
    const fs::path folder = scratch / "run";
    Child launcher(with_survivors(recipe, folder, "continue", {"--strategy", strategy}));
    ASSERT_TRUE(reaches_update(launcher, folder, 20));
    ASSERT_TRUE(kill_rank(launcher, 0));
    expect_complete(launcher.wait(), folder, state, 3);
  }
}

// Where groups end depends on clocks and on who lives; what the record says of it is enough for the same numbers.
TEST(SurvivorsTest, ARunWhoseRolloutsEndEarlyGoesOnAndIsReplayedFromItsRecord) {
  Recipe recipe = small_dd_ppo(60'000);
  recipe.arguments.insert(recipe.arguments.end(), {"--stragglers", "preempt"});
  recipe = with_setting(with_setting(recipe, "dd_ppo.sync_frac=0.25"), "dd_ppo.least_frac=0.1");
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "continue"));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(kill_rank(launcher, 2));
  const Ended ended = launcher.wait();
  ASSERT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.out << ended.err;
  EXPECT_GE(went_on_after(folder), 20);
  expect_line_for_every_update(folder);
  double rows_cut = 0;
  for (const JsonValue& line : lines_of(folder)) rows_cut += line.at("rows_cut").as_double();
  EXPECT_GT(rows_cut, 0) << "no rollout ended early";
  Command replay = train(recipe, scratch / "replay", "cpu:4");
  replay.arguments.insert(replay.arguments.end(), {"--replay", folder.string()});
  expect_success(replay);
  EXPECT_EQ(state_of(scratch / "replay"), state_of(folder));
  EXPECT_EQ(read_file(scratch / "replay" / "rollouts.jsonl"), read_file(folder / "rollouts.jsonl"));
}

// Each leader dies when it is to write its third line, before it does. The others have all kept that update.
TEST(SurvivorsTest, WhoTakesOverWritesTheLineOfAnUpdateThatAllHaveMade) {
  const Recipe recipe = small_dd_ppo(1600);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Command command = with_survivors(recipe, folder, "continue");
  command.environment.emplace_back("TANDEM_FAULT=metrics.append:3:kill");
  expect_complete(run(command), folder, undisturbed_state(recipe), 1);
  const std::string log = log_of(folder);
  for (const int update : {3, 5, 7}) EXPECT_THAT(log, HasSubstr(concat("goes on after update ", update, ",")));
  for (const int rank : {0, 1, 2}) EXPECT_EQ(count_in(log, concat("rank ", rank, " is lost (died: SIGKILL)")), 1);
}

// A line is due every third update, and the last of eight has one always. Rank 0 dies when it is to write that.
TEST(SurvivorsTest, WhoTakesOverAtTheEndWritesTheLastLineWithTheValuesOfThatUpdate) {
  const Recipe recipe = with_setting(small_dd_ppo(1600), "log.every_updates=3");
  const TemporaryFolder scratch;
  expect_success(training(recipe, scratch / "undisturbed"));
  Command command = with_survivors(recipe, scratch / "run", "continue");
  command.environment.emplace_back("TANDEM_FAULT=metrics.append:3:kill");
  const Ended ended = run(command);
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.out << ended.err;
  EXPECT_THAT(log_of(scratch / "run"), HasSubstr("goes on after update 8,"));
  const std::vector<JsonValue> lines = lines_of(scratch / "run"), undisturbed = lines_of(scratch / "undisturbed");
  ASSERT_EQ(lines.size(), 3U);
  ASSERT_EQ(undisturbed.size(), 3U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const char* field : {"updates", "env_steps", "episodes"})
      EXPECT_EQ(lines[i].at(field).as_int64(), undisturbed[i].at(field).as_int64()) << field;
    for (const char* field : {"policy_loss", "value_loss", "approx_kl", "learning_rate"})
      EXPECT_EQ(lines[i].at(field).as_double(), undisturbed[i].at(field).as_double()) << field;
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
  // Whoever leads now has not led before, and what others have logged it does not log again.
  const std::string log = log_of(folder);
  for (const int victim : {0, 3, 1}) EXPECT_EQ(count_in(log, concat("rank ", victim, " is lost (")), 1) << log;
  for (const int number : {1, 2, 3}) EXPECT_EQ(count_in(log, concat("in this order: round ", number, "\n")), 1) << log;
}

// Of rank 0, whose place another one has meanwhile.
TEST(SurvivorsTest, AReplacementJoinsAndGetsTheStateFromTheOthers) {
  const Recipe recipe = small_dd_ppo(400'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "replace"));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  const std::optional<Loss> loss = lose_rank(launcher, folder, 0, SIGKILL);
  ASSERT_TRUE(loss) << log_of(folder);
  EXPECT_LE(loss->seconds(), to_go_on_within());
  const std::optional<double> joined = join(launcher, folder, 1, loss->signalled);
  ASSERT_TRUE(joined) << log_of(folder);
  EXPECT_LE(*joined, to_join_within());
  EXPECT_THAT(log_of(folder), HasSubstr("rank 0 has joined, started again 1 time(s)"));
  expect_complete(launcher.wait(), folder, undisturbed_state(recipe), 4);
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
  EXPECT_THAT(stop.err, AllOf(HasSubstr("survivors = take_over"), HasSubstr("add --on-death continue, or replace")));
  EXPECT_FALSE(fs::exists(scratch / "stop"));

  struct Case {
    std::vector<std::string> variables;
    std::string fault;
  };
  const std::string here = "MASTER_ADDR=127.0.0.1", port = "MASTER_PORT=29400";
  const std::vector<std::string> slurm{
      "SLURM_PROCID=0",        "SLURM_NTASKS=1", "SLURM_LOCALID=0", "SLURM_JOB_ID=1", here, port,
      "SLURM_KILL_BAD_EXIT=1", "RANK=",          "WORLD_SIZE="};
  for (const auto& [variables, fault] :
       {Case{{"TORCHELASTIC_RUN_ID=t", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", here, port},
             "torchrun ends all ranks when one dies, and starts all of them again"},
        Case{{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "OMPI_COMM_WORLD_LOCAL_RANK=0",
              "OMPI_COMM_WORLD_LOCAL_SIZE=1", here, port},
             "mpirun ends all ranks when one dies"},
        Case{slurm, "export SLURM_KILL_BAD_EXIT=0"}}) {
    SCOPED_TRACE(fault);
    Command command = training(recipe, scratch / "refused");
    command.arguments.insert(command.arguments.end(), {"--survivors", "take_over"});
    command.environment = variables;
    const Ended refused = run(command);
    EXPECT_EQ(refused.exit_code, 2) << refused.how() << refused.err;
    EXPECT_THAT(refused.err, HasSubstr(fault));
    EXPECT_FALSE(fs::exists(scratch / "refused"));
  }
}

// A new process of the rank alone would meet nobody: the others wait for the dead one, or hold a group that it was in.
TEST(SurvivorsTest, ADeathBeforeTheRanksHaveBegunStartsAllAgain) {
  const Recipe recipe = small_dd_ppo(2048);
  const std::string undisturbed = undisturbed_state(recipe);
  int dies = kSurvivingRanks;
  for (const char* const where : {"world.introduced", "world.met", "elastic_world.begin"}) {
    SCOPED_TRACE(where);
    const TemporaryFolder scratch;
    Command command = with_survivors(recipe, scratch / "run", "replace");
    const std::string wrapper = concat("[ $RANK.$TANDEM_RANK_RESTARTS = ", --dies,
                                       ".0 ] && export TANDEM_FAULT=", where, ":1:kill; exec \"$0\" \"$@\"");
    const auto end_of_flags = std::ranges::find(command.arguments, "--");
    ASSERT_NE(end_of_flags, command.arguments.end());
    const std::vector<std::string> shell{"/bin/sh", "-c", wrapper};
    command.arguments.insert(end_of_flags + 1, shell.begin(), shell.end());
    const Ended ended = run(command);
    expect_undisturbed(ended, scratch / "run", undisturbed);
    EXPECT_EQ(count_in(ended.err, "all ranks are started again (1 of 100 times)"), 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(concat("rank ", dies, " was ended by SIGKILL")));
  }
}

}  // namespace
}  // namespace tandem::process_test
