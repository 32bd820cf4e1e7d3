// Launches of small shell scripts, each with an own variable RANK.
#include "tandem/app/launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>

#include "tandem/app/launch/testing/supervised.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr std::chrono::hours kNever{1};
// So that a rank that should have been ended does not outlive a test that fails.
constexpr const char* kWait = "sleep 300 & wait";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Neither gone nor a zombie that nobody waits for.
bool is_alive(pid_t process) {
  std::ifstream file(concat("/proc/", process, "/stat"));
  std::string text;
  if (!std::getline(file, text)) return false;
  return text.substr(text.rfind(')') + 2, 1) != "Z";
}

class SupervisorTest : public Supervised {};

TEST_F(SupervisorTest, EveryLineCarriesItsRankOnItsStream) {
  const Outcome outcome = launch("echo out $RANK; echo err $RANK >&2; printf unfinished", {.ranks = 2});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(lines_of(outcome.out),
              UnorderedElementsAre("[0] out 0", "[0] unfinished", "[1] out 1", "[1] unfinished"));
  EXPECT_THAT(lines_of(outcome.err), UnorderedElementsAre("[0] err 0", "[1] err 1"));
}

TEST_F(SupervisorTest, LongLinesOfSeveralRanksDoNotMix) {
  const Outcome outcome = launch(
      "line=$(head -c 100000 /dev/zero | tr '\\0' $RANK); for i in 1 2 3 4 5 6 7 8; do echo $line; done", {.ranks = 3});
  const std::vector<std::string> lines = lines_of(outcome.out);
  EXPECT_EQ(lines.size(), 24u);
  for (const std::string& line : lines) {
    EXPECT_EQ(line.substr(4), std::string(100'000, line.at(1))) << line.substr(0, 10);
  }
}

TEST_F(SupervisorTest, StandardOutputAndErrorMayBeOneFile) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> both(std::tmpfile(), std::fclose);
  const int file = ::fileno(both.get());
  const std::string script =  // lines that take hundreds of writes
      "line=$(head -c 900000 /dev/zero | tr '\\0' x); for i in 1 2 3; do echo $line; echo $line >&2; done";
  EXPECT_EQ(supervise({.ranks = 2, .command = {"/bin/sh", "-c", script}}, variables, {file, file}), 0);
  const std::vector<std::string> lines = lines_of(content_of(both.get()));
  EXPECT_EQ(lines.size(), 12u);
  for (const std::string& line : lines) EXPECT_TRUE(line.substr(4) == std::string(900'000, 'x')) << line.substr(0, 10);
}

TEST_F(SupervisorTest, ARankThatFailsEndsTheOthersAndIsReported) {
  const Outcome outcome =
      launch(concat("[ $RANK = 1 ] || { echo $$ > rank$RANK; ", kWait,
                    "; }; "
                    "while [ ! -s rank0 ] || [ ! -s rank2 ]; do sleep 0.01; done; echo the data is bad; exit 7"),
             {.ranks = 3, .grace = kNever});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("tandem: rank 1 ended with exit code 7"), HasSubstr("the others are asked to end\n"),
                    HasSubstr("first, rank 1 ended with exit code 7"), HasSubstr("    the data is bad\n"),
                    HasSubstr("then: "), HasSubstr("rank 0 (SIGTERM)"), HasSubstr("rank 2 (SIGTERM)")));
}

TEST_F(SupervisorTest, ARankEndedByASignalCountsAsInAShell) {
  const Outcome outcome = launch("kill -KILL $$");
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 was ended by SIGKILL"));
}

TEST_F(SupervisorTest, ARankThatIgnoresSigtermIsKilledAfterTheGrace) {
  const Outcome outcome = launch(
      "if [ $RANK = 0 ]; then trap '' TERM; touch ready; while :; do sleep 0.01; done; fi; "
      "while [ ! -e ready ]; do sleep 0.01; done; exit 7",
      {.ranks = 2, .grace = std::chrono::milliseconds(100)});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("rank 0 has not ended within 0.1 s and is killed"), HasSubstr("then: rank 0 (SIGKILL)")));
}

TEST_F(SupervisorTest, CtrlCIsPassedOnToEveryRank) {
  for (const char* signal : {"INT", "TERM"}) {
    std::filesystem::remove(folder / "ready1");
    const Outcome outcome = launch(concat("trap 'echo asked; exit 5' ", signal,
                                          "; echo > ready$RANK; if [ $RANK = 0 ]; then "
                                          "while [ ! -e ready1 ]; do sleep 0.01; done; kill -",
                                          signal, " $PPID; fi; while :; do sleep 0.01; done"),
                                   {.ranks = 2, .grace = kNever});
    EXPECT_EQ(outcome.code, 130);
    EXPECT_THAT(lines_of(outcome.out), UnorderedElementsAre("[0] asked", "[1] asked"));
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(concat("SIG", signal, " is passed on")), Not(HasSubstr("failed"))));
  }
}

TEST_F(SupervisorTest, CtrlCAfterAnotherSignalKillsAtOnce) {
  for (const char* first : {"INT", "TERM"}) {
    const Outcome outcome = launch(
        concat("trap '' INT TERM; kill -", first, " $PPID; sleep 0.4; kill -INT $PPID; while :; do sleep 0.01; done"),
        {.grace = kNever});
    EXPECT_EQ(outcome.code, 130);
  }
}

TEST_F(SupervisorTest, SignalsThatAreSentTwiceLeaveRanksTheirGrace) {
  const Outcome outcome = launch(
      "trap 'trap \"\" INT TERM; sleep 0.5; echo saved; exit 130' INT TERM; kill -INT $PPID; kill -INT $PPID; kill "
      "-TERM $PPID; "
      "sleep 0.4; kill -TERM $PPID; while :; do sleep 0.01; done",
      {.grace = kNever});
  EXPECT_EQ(outcome.code, 130);
  EXPECT_EQ(outcome.out, "[0] saved\n");
}

TEST_F(SupervisorTest, UserSignalsArePassedOnAndEndNothing) {
  const Outcome outcome = launch("trap 'echo saved; exit 0' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "[0] saved\n");
}

TEST_F(SupervisorTest, ContinueLeavesTheSurvivorsAlone) {
  const Outcome outcome = launch(
      "if [ $RANK = 0 ]; then echo $$ > dying; exit 4; fi; while [ ! -s dying ]; do sleep 0.01; done; "
      "while kill -0 $(cat dying) 2> /dev/null; do sleep 0.01; done; echo survived",
      {.ranks = 2, .on_death = OnDeath::kContinue});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(outcome.out, "[1] survived\n");
  EXPECT_THAT(outcome.err, HasSubstr("the others go on (--on-death continue)"));
}

TEST_F(SupervisorTest, ReplaceStartsTheRankAgainAndLeavesTheOthersAlone) {
  const Outcome outcome = launch(
      "if [ $RANK = 0 ]; then while [ ! -e done ]; do sleep 0.01; done; echo survived; exit 0; fi; "
      "[ $RESTARTS = 2 ] || exit 4; echo restarted $RESTARTS times; touch done",
      {.ranks = 2, .on_death = OnDeath::kReplace, .max_restarts = 2});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(lines_of(outcome.out), UnorderedElementsAre("[0] survived", "[1] restarted 2 times"));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 1 ended with exit code 4"), HasSubstr("started again (1 of 2 times)"),
                                 HasSubstr("started again (2 of 2 times)")));
}

TEST_F(SupervisorTest, ReplacementsAreBounded) {
  const Outcome outcome = launch(concat("[ $RANK = 1 ] || { ", kWait, "; }; echo run $RESTARTS; exit 4"),
                                 {.ranks = 2, .on_death = OnDeath::kReplace, .max_restarts = 1});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(lines_of(outcome.out), UnorderedElementsAre("[1] run 0", "[1] run 1"));
  EXPECT_THAT(outcome.err, HasSubstr("the others are asked to end"));
}

TEST_F(SupervisorTest, ARankThatWasStoppedEndsAllWhateverIsSaidOfDeaths) {
  for (const OnDeath on_death : {OnDeath::kStop, OnDeath::kContinue, OnDeath::kReplace}) {
    const Outcome outcome = launch(concat("echo $$ > rank$RANK; [ $RANK = 1 ] || { ", kWait,
                                          "; }; while [ ! -s rank0 ]; do sleep 0.01; done; exit 130"),
                                   {.ranks = 2, .on_death = on_death});
    EXPECT_EQ(outcome.code, 130);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("rank 1 was stopped (exit code 130)"), Not(HasSubstr("started again"))));
    EXPECT_FALSE(is_alive(process_in("rank0")));
    std::filesystem::remove(folder / "rank0");
  }
}

TEST_F(SupervisorTest, ASignalThatEndsARankWithoutAHandlerStopsTheLaunch) {
  const Outcome outcome = launch(concat("kill -USR1 $PPID; ", kWait), {.ranks = 2, .on_death = OnDeath::kReplace});
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_EQ(launch("kill -USR1 $$", {.ranks = 1}).code, 128 + SIGUSR1) << "nobody sent that through the launcher";
}

TEST_F(SupervisorTest, AFailureCountsMoreThanAStop) {
  const Outcome outcome = launch(
      "trap 'exit 3' TERM; touch rank$RANK; [ $RANK = 1 ] || while :; do sleep 0.01; done; while [ ! -e rank0 ]; do "
      "sleep 0.01; done; exit 130",
      {.ranks = 2});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
}

TEST_F(SupervisorTest, ACommandThatCannotBeStartedIsNamed) {
  for (const char* program : {"no-such-program-here", "/etc/passwd", "./missing"}) {
    try {
      (void)supervise({.ranks = 2, .command = {program}}, variables);
      ADD_FAILURE() << program << " was started";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(concat("cannot start '", program, "': ")));
    }
  }
}

TEST_F(SupervisorTest, WhatARankLeavesBehindIsKilledWithIt) {
  EXPECT_EQ(launch("(sleep 300 & echo $! > child; wait) & while [ ! -s child ]; do sleep 0.01; done").code, 0);
  const pid_t child = process_in("child");
  ASSERT_GT(child, 0);
  EXPECT_TRUE(eventually([&] { return !is_alive(child); }));
}

TEST_F(SupervisorTest, ARankStartsWithEverySignalAtItsDefault) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // as the program sets it
  EXPECT_EQ(launch("kill -PIPE $$").code, 128 + SIGPIPE);
  std::signal(SIGPIPE, before);
}

TEST_F(SupervisorTest, ARankHasNoInput) {
  const Descriptor input(::dup(STDIN_FILENO));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> line(std::tmpfile(), std::fclose);
  std::fputs("a line\n", line.get());
  std::fseek(line.get(), 0, SEEK_SET);
  ::dup2(::fileno(line.get()), STDIN_FILENO);
  EXPECT_EQ(launch("read line && exit 1; exit 0").code, 0);
  ::dup2(input.get(), STDIN_FILENO);
}

TEST_F(SupervisorTest, ARanksVariablesReplaceThoseOfTheLauncher) {
  ::setenv("RANK", "7", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(launch("env | grep ^RANK=").out, "[0] RANK=0\n");
  ::unsetenv("RANK");  // NOLINT(concurrency-mt-unsafe)
}

// A launcher in a process of its own, whose two ranks wait with a child each.
class LauncherTest : public SupervisorTest {
 protected:
  void SetUp() override {
    launcher = ::fork();
    ASSERT_GE(launcher, 0);
    if (launcher == 0) {
      (void)launch("trap '' TERM HUP; sleep 300 & echo $! > child$RANK; echo $$ > rank$RANK; wait", {.ranks = 2});
      ::_exit(0);
    }
    for (const char* name : {"rank0", "rank1", "child0", "child1"}) {
      EXPECT_TRUE(eventually([&] { return is_alive(process_in(name)); })) << name;
    }
  }
  void TearDown() override {  // what a failed test left
    for (const char* name : {"rank0", "rank1", "child0", "child1"}) {
      if (is_alive(process_in(name))) ::kill(process_in(name), SIGKILL);
    }
  }
  void kill_launcher() const {
    ::kill(launcher, SIGKILL);
    ::waitpid(launcher, nullptr, 0);
  }
  pid_t warden() const {
    std::ifstream children(concat("/proc/", launcher, "/task/", launcher, "/children"));
    for (pid_t child = 0; children >> child;) {
      std::string name;
      std::ifstream(concat("/proc/", child, "/comm")) >> name;
      if (name == "tandem-warden") return child;
    }
    return 0;
  }

  pid_t launcher = 0;
};

TEST_F(LauncherTest, WhenItIsKilledNothingRemains) {
  kill_launcher();
  for (const char* name : {"rank0", "rank1", "child0", "child1"}) {
    EXPECT_TRUE(eventually([&] { return !is_alive(process_in(name)); })) << name;
  }
}

TEST_F(LauncherTest, EvenWithoutItsWardenNoRankRemains) {
  ASSERT_TRUE(eventually([&] { return warden() > 0; }));  // it gives itself the name
  EXPECT_NE(::getpgid(warden()), ::getpgid(launcher)) << "Ctrl-C would end it before the launcher";
  ::kill(warden(), SIGKILL);
  kill_launcher();
  for (const char* name : {"rank0", "rank1"}) {
    EXPECT_TRUE(eventually([&] { return !is_alive(process_in(name)); })) << name;
  }
}

}  // namespace
}  // namespace tandem::app
