// What a launcher's witness hears of and decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
