// What a launcher's witness hears of and decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tandem/app/launch/supervisor.h"
#include "tandem/app/launch/testing/supervised.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WitnessTest : public Supervised {};

TEST_F(WitnessTest, AWitnessHearsOfEachFailureBeforeTheRankIsStartedAgain) {
  std::vector<std::string> heard;
  const LaunchWitness witness{
      .on_failure =
          [&](int rank, int restarts, const std::string& how) {
            heard.push_back(concat(rank, ".", restarts, " ", how, " ",
                                   std::filesystem::exists(folder / "again") ? "late" : "first"));
          },
      .is_complete = {},
      .is_left_behind = {}};
  const Outcome outcome = launch("[ $RESTARTS = 1 ] && { touch again; exit 0; }; kill -KILL $$",
                                 {.ranks = 1, .on_death = OnDeath::kReplace}, witness);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(heard, ::testing::ElementsAre("0.0 SIGKILL first"));
}

TEST_F(WitnessTest, AllAreStartedAgainWhereTheOthersCannotGoOn) {
  int attempts = 0;
  const LaunchWitness witness{.can_be_replaced = [](int rank) { return rank != 1; },
                              .on_new_attempt = [&] { std::ofstream(folder / concat("attempt", ++attempts)) << 1; }};
  const Outcome outcome = launch(
      "[ -e attempt1 ] && { echo again; exit 0; }; touch rank$RANK; [ $RANK = 0 ] && { sleep 300 & wait; }; "
      "while [ ! -e rank0 ]; do sleep 0.01; done; exit 4",
      {.ranks = 2, .on_death = OnDeath::kReplace, .max_restarts = 1}, witness);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("[0] again"), HasSubstr("[1] again")));
  EXPECT_THAT(outcome.err, HasSubstr("all ranks are started again (1 of 1 times)"));
  EXPECT_EQ(attempts, 1);
}

TEST_F(WitnessTest, ASignalEndsALaunchWhoseRanksAreStartedAgain) {
  const LaunchWitness witness{.can_be_replaced = [](int) { return false; }};
  const Outcome outcome = launch(
      "[ $RANK = 0 ] && { trap 'kill -INT $PPID' TERM; touch rank0; while :; do sleep 0.01; done; }; "
      "while [ ! -e rank0 ]; do sleep 0.01; done; exit 4",
      {.ranks = 2, .on_death = OnDeath::kReplace, .max_restarts = 1}, witness);
  EXPECT_EQ(outcome.code, 130) << outcome.err;
}

TEST_F(WitnessTest, FailuresDoNotCountWhenTheWorkIsComplete) {
  const std::string script = "[ $RANK = 1 ] && exit 7; true";
  for (const bool is_complete : {true, false}) {
    const Outcome outcome = launch(script, {.ranks = 2, .on_death = OnDeath::kContinue},
                                   {.on_failure = {}, .is_complete = [is_complete] { return is_complete; }});
    EXPECT_EQ(outcome.code, is_complete ? 0 : 7);
    EXPECT_EQ(outcome.err.find("the run failed") == std::string::npos, is_complete) << outcome.err;
  }
}

// Stopped as it is, by itself.
TEST_F(WitnessTest, WhomTheOthersHaveLeftBehindIsKilled) {
  const LaunchWitness witness{.on_failure = {}, .is_complete = {}, .is_left_behind = [&](int rank, int restarts) {
                                return rank == 1 && restarts == 0 && process_in("rank1") != 0;
                              }};
  const Outcome outcome = launch("[ $RANK$RESTARTS = 10 ] && { echo $$ > rank1; kill -STOP $$; }; touch done$RANK",
                                 {.ranks = 2, .on_death = OnDeath::kReplace, .max_restarts = 1}, witness);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the others have gone on without rank 1, which was silent"),
                                 HasSubstr("rank 1 was ended by SIGKILL")));
  EXPECT_TRUE(std::filesystem::exists(folder / "done1")) << "it was not started again";
}

// The witness is slow at first, as if the launcher had been stopped too.
TEST_F(WitnessTest, WhoIsStoppedBeyondThePatienceIsKilled) {
  int asked = 0;
  const LaunchWitness witness{.patience_with_stopped = [&](int rank, int restarts) {
    EXPECT_EQ(concat(rank, restarts), "10");
    if (++asked == 1) std::this_thread::sleep_for(std::chrono::seconds(2));
    return std::optional(std::chrono::milliseconds(1500));
  }};
  const Outcome outcome = launch("[ $RANK$RESTARTS = 10 ] && kill -STOP $$; touch done$RANK",
                                 {.ranks = 2, .on_death = OnDeath::kReplace, .max_restarts = 1}, witness);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 has been stopped (SIGSTOP) for 1.5 s and nobody waits for it"));
  EXPECT_TRUE(std::filesystem::exists(folder / "done1")) << "it was not started again";
  EXPECT_GE(asked, 3) << "time in which the launcher did not look was counted";
}

TEST_F(WitnessTest, WhoIsStoppedWhileOthersWaitForItIsLeftAlone) {
  int asked = 0;
  const LaunchWitness witness{.patience_with_stopped = [&](int, int) -> std::optional<std::chrono::milliseconds> {
    if (++asked == 2) std::ofstream(folder / "seen") << "twice";
    return std::nullopt;
  }};
  const Outcome outcome =
      launch("{ while [ ! -e seen ]; do sleep 0.01; done; kill -CONT $$; } & kill -STOP $$; touch done", {}, witness);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(std::filesystem::exists(folder / "done"));
}

// What the others do first.
const std::string kAwaitStopOf2 =
    "while ! grep -qs '^State:.T' /proc/$(cat rank2 2>/dev/null)/status; do sleep 0.01; done; ";

// With a patience of the witness, and without one, by the grace. The others' failure is what the launch ends with.
TEST_F(WitnessTest, WhoIsStoppedAndAloneAfterAFailureIsKilled) {
  const auto kOneSecond = std::chrono::milliseconds(1000);
  for (const bool knows : {true, false}) {
    LaunchWitness witness;
    if (knows) witness.patience_without_others = [&] { return std::optional(kOneSecond); };
    const LaunchOptions options{
        .ranks = 3, .on_death = OnDeath::kContinue, .grace = knows ? std::chrono::hours(1) : kOneSecond};
    const Outcome outcome = launch(
        concat("[ $RANK = 2 ] && { echo $$ > rank2; kill -STOP $$; }; ", kAwaitStopOf2, "[ $RANK = 1 ] || exit 7"),
        options, witness);
    EXPECT_EQ(outcome.code, 7);
    EXPECT_THAT(outcome.err, HasSubstr("rank 2 is stopped (SIGSTOP), and for 1.0 s nobody else has been left: 1 rank"));
    EXPECT_THAT(outcome.err, ::testing::Not(HasSubstr("rank 1 ")));
  }
}

// Rank 1 runs until it has been looked at for longer than the grace.
TEST_F(WitnessTest, WhoIsStoppedBesideOneThatRunsIsLeftAlone) {
  const Outcome outcome = launch(concat("[ $RANK = 2 ] && { echo $$ > rank2; kill -STOP $$; touch done2; exit 0; }; ",
                                        kAwaitStopOf2, "[ $RANK = 0 ] && exit 7; sleep 2.5; kill -CONT $(cat rank2)"),
                                 {.ranks = 3, .on_death = OnDeath::kContinue, .grace = std::chrono::milliseconds(500)});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_TRUE(std::filesystem::exists(folder / "done2")) << outcome.err;
}

// They stop at the second look after the failure, and are continued after many looks at both.
TEST_F(WitnessTest, AllThatAreStoppedLongAfterAFailureAreLeftAlone) {
  bool has_failed = false;
  int looks = 0;
  std::vector<int> stopped(3);
  const LaunchWitness witness{.on_failure = [&](int, int, const std::string&) { has_failed = true; },
                              .is_left_behind =
                                  [&](int rank, int) {
                                    if (has_failed && rank == 2 && ++looks == 2) std::ofstream(folder / "stop");
                                    return false;
                                  },
                              .patience_with_stopped = [&](int rank, int) -> std::optional<std::chrono::milliseconds> {
                                ++stopped.at(static_cast<std::size_t>(rank));
                                if (std::min(stopped[1], stopped[2]) >= 5) std::ofstream(folder / "go");
                                return std::nullopt;
                              }};
  const Outcome outcome = launch(
      "[ $RANK = 0 ] && exit 7; { while [ ! -e go ]; do sleep 0.01; done; kill -CONT $$; } & "
      "while [ ! -e stop ]; do sleep 0.01; done; kill -STOP $$; touch done$RANK",
      {.ranks = 3, .on_death = OnDeath::kContinue, .grace = std::chrono::milliseconds(500)}, witness);
  EXPECT_EQ(outcome.code, 7);
  for (const char* done : {"done1", "done2"}) EXPECT_TRUE(std::filesystem::exists(folder / done)) << outcome.err;
}

// The others are asked to end, and may then say that their work is complete.
TEST_F(WitnessTest, AFailureThatEndsTheOthersCounts) {
  const Outcome outcome = launch("[ $RANK = 1 ] && exit 7; trap 'exit 0' TERM; while :; do sleep 0.01; done",
                                 {.ranks = 2, .on_death = OnDeath::kReplace, .max_restarts = 1},
                                 {.on_failure = {}, .is_complete = [] { return true; }});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_THAT(outcome.err, HasSubstr("the run failed"));
}

}  // namespace
}  // namespace tandem::app
