#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tandem/app/run/run_status.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

RunSeen two_ranks() {
  RunStatus status{.env = "CartPole-v1",
                   .algo = "dd_ppo",
                   .state = kRunning,
                   .written = 100.5,
                   .env_steps = 12'300,
                   .total_steps = 100'000,
                   .env_steps_per_s = 8100};
  status.ranks.push_back({.host = "one",
                          .process = 41,
                          .phase = "learn",
                          .phase_s = 0.5,
                          .silent_s = 0.25,
                          .updates = 12,
                          .env_steps_per_s = 4000,
                          .wait_share = 0.125});
  status.ranks.push_back({.host = "two",
                          .process = 42,
                          .phase = "sample",
                          .phase_s = 31,
                          .silent_s = 0.5,
                          .updates = 12,
                          .env_steps_per_s = NAN,
                          .wait_share = NAN});
  return {.folder = "runs/pole", .status = status};
}

TEST(RunStatusTest, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_status(folder / "status.json"), std::nullopt);
  RunStatus written = two_ranks().status.value();
  write_status(folder / "status.json", written);
  RunStatus read = read_status(folder / "status.json").value();
  EXPECT_TRUE(std::isnan(read.ranks[1].wait_share));
  for (RunStatus* status : {&written, &read}) status->ranks[1].env_steps_per_s = status->ranks[1].wait_share = 0;
  EXPECT_EQ(read, written);
  EXPECT_LT(age_of(read, folder / "status.json"), 60) << "another boot: by the time of the file";
  stamp(read);
  read.written -= 3600;  // somebody has set the time of day
  EXPECT_LT(age_of(read, folder / "status.json"), 60);
  read.written_at.seconds -= 100;
  EXPECT_GE(age_of(read, folder / "status.json"), 100);
  EXPECT_THROW(write_status(folder / "missing" / "status.json", written), CheckpointError);
}

TEST(RunStatusTest, APartThatCannotTakeItsPlaceIsRemoved) {
  const TemporaryFolder temporary;
  std::filesystem::create_directory(temporary / "status.json");  // no file takes the place of a folder
  EXPECT_THROW(write_status(temporary / "status.json", two_ranks().status.value()), RunError);
  EXPECT_FALSE(std::filesystem::exists(temporary / "status.json.part"));
}

TEST(TopTextTest, HasARowForEachRank) {
  const std::string text = top_text(two_ranks(), 10);
  EXPECT_THAT(text, HasSubstr("runs/pole  CartPole-v1 dd_ppo  running  12.3k/100k steps  8.10k/s\n"));
  EXPECT_THAT(text, HasSubstr("    0  learn     0.5 s        12     4.00k    13%       0.2 s  one               41\n"));
  EXPECT_THAT(text, HasSubstr("    1  sample     31 s        12         -      -       0.5 s  two               42\n"));
  EXPECT_THAT(text, Not(HasSubstr("silent")));
  EXPECT_EQ(going(two_ranks()), Going::kOn);
}

TEST(TopTextTest, NoMoreRowsThanThereIsRoomFor) {
  EXPECT_THAT(top_text(two_ranks(), 1), AllOf(HasSubstr("... and 1 more\n"), Not(HasSubstr("two"))));
}

TEST(TopTextTest, NamesRanksThatAreSilent) {
  RunSeen run = two_ranks();
  run.status->ranks[1].silent_s = 12.5;
  EXPECT_THAT(top_text(run, 10), AllOf(HasSubstr("\nsilent: rank 1 since 12 s\n"), Not(HasSubstr("rank 0"))));
}

TEST(TopTextTest, AStatusThatGrowsOldIsOfASilentRank0OrOfOneThatIsGone) {
  RunSeen run = two_ranks();
  run.age_s = 7;
  run.is_in_use = true;
  EXPECT_EQ(going(run), Going::kOn);
  EXPECT_THAT(top_text(run, 10), AllOf(HasSubstr("rank 0 is silent since 7.0 s"), HasSubstr("7.2 s  one")));
  run.is_in_use = false;
  EXPECT_EQ(going(run), Going::kEnded);
  EXPECT_THAT(top_text(run, 10), AllOf(HasSubstr("ended without a word"), HasSubstr("7.0 s ago"),
                                       HasSubstr("resume runs/pole` goes on from the last checkpoint")));
  run.age_s = 1;
  EXPECT_EQ(going(run), Going::kOn) << "nobody has looked whether the folder is in use";
}

TEST(TopTextTest, SaysHowTheRunEnded) {
  RunSeen run = two_ranks();
  run.age_s = 1000;
  for (const char* end : {"finished", "stopped", "failed"}) {
    run.status->state = end;
    EXPECT_EQ(going(run), Going::kEnded);
    EXPECT_THAT(top_text(run, 10), AllOf(HasSubstr(end), HasSubstr("the run has ended; `"), HasSubstr("  ended  ")));
  }
  EXPECT_THAT(top_text(run, 10), HasSubstr("resume runs/pole` goes on with it"));
}

TEST(TopTextTest, WithoutAStatusItIsStartingOrOver) {
  RunSeen run{.folder = "runs/pole"};
  EXPECT_EQ(going(run), Going::kEnded);
  EXPECT_THAT(top_text(run, 10), HasSubstr("has no status"));
  run.is_in_use = true;
  EXPECT_EQ(going(run), Going::kOn);
  EXPECT_EQ(top_text(run, 10), "runs/pole  is starting\n");
}

}  // namespace
}  // namespace tandem::app
