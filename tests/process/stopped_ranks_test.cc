// Ranks of a DD-PPO training that are stopped (SIGSTOP) and perhaps continued, and a launcher that is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "faults.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Kills a rank, and stops the process that is started for it before it can have asked to be let in.
bool stop_the_replacement_of(Child& launcher, int rank) {
  const pid_t first = process_of(launcher, rank);
  if (!kill_rank(launcher, rank)) return false;
  while (launcher.is_running()) {
    const pid_t next = process_of(launcher, rank);
    if (next != 0 && next != first) return ::kill(next, SIGSTOP) == 0;
  }
  return false;
}

// Rank 0 holds the run folder, which another one needs.
TEST(StoppedRanksTest, OneThatIsSilentUntilTheDeadlineIsLeftBehindAndTheRunHasTheSameBits) {
  const Recipe recipe = small_dd_ppo(60'000);
  const std::string state = undisturbed_state(recipe);
  for (const int victim : {0, 2}) {
    SCOPED_TRACE(concat("rank ", victim));
    const TemporaryFolder scratch;
    const fs::path folder = scratch / "run";
    Child launcher(with_survivors(recipe, folder, "continue", {"--deadline", "2"}));
    ASSERT_TRUE(reaches_update(launcher, folder, 20));
    const std::optional<Loss> loss = lose_rank(launcher, folder, victim, SIGSTOP);
    ASSERT_TRUE(loss) << log_of(folder);
    EXPECT_LE(loss->seconds(), 2 + to_go_on_within());
    const Ended ended = launcher.wait();
    expect_complete(ended, folder, state, 3);
    EXPECT_THAT(log_of(folder), HasSubstr(concat("rank ", victim, " is lost (gave no sign of life")));
    EXPECT_THAT(ended.err, HasSubstr(concat("the others have gone on without rank ", victim)));
  }
}

TEST(StoppedRanksTest, OneThatIsLeftBehindIsReplaced) {
  const Recipe recipe = small_dd_ppo(400'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "replace", {"--deadline", "2"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  const std::optional<Loss> loss = lose_rank(launcher, folder, 0, SIGSTOP);
  ASSERT_TRUE(loss) << log_of(folder);
  EXPECT_LE(loss->seconds(), 2 + to_go_on_within());
  const std::optional<double> joined = join(launcher, folder, 1, loss->went_on);
  ASSERT_TRUE(joined) << log_of(folder);
  EXPECT_LE(*joined, to_join_within());
  EXPECT_THAT(log_of(folder), HasSubstr("rank 0 has joined, started again 1 time(s)"));
  expect_complete(launcher.wait(), folder, undisturbed_state(recipe), 4);
}

// Nobody else knows of it: the launcher, whose child it is, ends the wait.
TEST(StoppedRanksTest, AReplacementThatIsStoppedBeforeItWasLetInIsReplacedAtTheDeadline) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(small_dd_ppo(100'000'000), folder, "replace", {"--deadline", "2"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(stop_the_replacement_of(launcher, 2));
  ASSERT_TRUE(says(launcher, folder, "rank 2 has joined, started again 2 time(s)", 1));
  launcher.signal(SIGTERM);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("rank 2 has been stopped (SIGSTOP) for 2.0 s and nobody waits for it"));
}

// The run ends long before the deadline.
TEST(StoppedRanksTest, AReplacementThatStaysStoppedDoesNotKeepTheLauncherWhenTheRunHasEnded) {
  const Recipe recipe = small_dd_ppo(20'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "replace", {"--deadline", "8"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(stop_the_replacement_of(launcher, 2));
  const Ended ended = launcher.wait();
  expect_complete(ended, folder, undisturbed_state(recipe), 3);
  EXPECT_THAT(ended.err, HasSubstr("rank 2 has been stopped (SIGSTOP) for 8.0 s and nobody waits for it"));
}

// With survivors and without: nobody is lost before the deadline.
TEST(StoppedRanksTest, OneThatIsContinuedInTimeWasWaitedFor) {
  const Recipe recipe = small_dd_ppo(60'000);
  const std::string state = undisturbed_state(recipe);
  for (const char* survivors : {"end", "take_over"}) {
    SCOPED_TRACE(survivors);
    const TemporaryFolder scratch;
    const fs::path folder = scratch / "run";
    Command command = training(recipe, folder);
    command.arguments.insert(command.arguments.end(), {"--survivors", survivors});
    Child launcher(as_ranks(kSurvivingRanks, command, {"--on-death", "continue"}));
    for (int victim = 0; victim < kSurvivingRanks; ++victim) {
      ASSERT_TRUE(reaches_update(launcher, folder, 20 + 40 * victim));
      ASSERT_TRUE(signal_rank(launcher, victim, SIGSTOP));
      std::this_thread::sleep_for(700ms);
      ASSERT_TRUE(signal_rank(launcher, victim, SIGCONT));
    }
    expect_undisturbed(launcher.wait(), folder, state);
  }
}

// One is dead, two are stopped: the fourth does not know whether these go on elsewhere. They do, once they can.
TEST(StoppedRanksTest, WhoseMeetingFailsSaysInTheRecordThatTheRunFailedAndWhy) {
  const Recipe recipe = small_dd_ppo(200'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "continue"));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder / "status.json"); }));
  for (const int victim : {1, 2}) ASSERT_TRUE(signal_rank(launcher, victim, SIGSTOP));
  ASSERT_TRUE(kill_rank(launcher, 0));
  ASSERT_TRUE(eventually([&] { return fs::exists(folder / "summary.json") && process_of(launcher, 3) == 0; }));
  const std::string why = "of 4 ranks 1 are left here, 1 have ended, and nothing is known of rank(s) 1, 2";
  EXPECT_THAT(log_of(folder), HasSubstr(why));
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "failed");
  EXPECT_THAT(summary_of(folder).at("failure").as_string(), HasSubstr(why));
  EXPECT_GE(summary_of(folder).at("updates").as_int64(), 20);
  EXPECT_THAT(run(tandem({"top", folder.string(), "--once"})).out, HasSubstr("  failed  "));

  for (const int victim : {1, 2}) ASSERT_TRUE(signal_rank(launcher, victim, SIGCONT));
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << "\n" << ended.out << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("rank 3 ended with exit code 3"));
  EXPECT_EQ(state_of(folder), undisturbed_state(recipe));
}

// Those that ended with an error cannot end it, and a signal does not either.
TEST(StoppedRanksTest, OneThatStaysStoppedDoesNotKeepTheLauncherWhenTheOthersHaveFailed) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(as_ranks(kSurvivingRanks, training(small_dd_ppo(100'000'000), folder),
                          {"--on-death", "continue", "--grace", "2"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  ASSERT_TRUE(signal_rank(launcher, 2, SIGSTOP));
  ASSERT_TRUE(kill_rank(launcher, 1));
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.how();
  EXPECT_THAT(ended.err, HasSubstr("rank 2 is stopped (SIGSTOP), and for 2.0 s nobody else has been left"));
}

// One is dead, two are stopped for good: the fourth has no majority.
TEST(StoppedRanksTest, ThoseThatStayStoppedDoNotKeepTheLauncherWhenTheOthersDidNotPrevail) {
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(small_dd_ppo(100'000'000), folder, "continue", {"--deadline", "4"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  // Found before the first signal: on a busy machine that takes a while.
  const pid_t zero = process_of(launcher, 0), one = process_of(launcher, 1), two = process_of(launcher, 2);
  ASSERT_TRUE(zero > 0 && one > 0 && two > 0);
  for (const pid_t victim : {one, two}) ASSERT_EQ(::kill(victim, SIGSTOP), 0);
  ASSERT_EQ(::kill(zero, SIGKILL), 0);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.how();
  for (const int victim : {1, 2}) {
    EXPECT_THAT(ended.err, HasSubstr(concat("rank ", victim,
                                            " is stopped (SIGSTOP), and for 4.0 s nobody else has been left: 2 rank")));
  }
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "failed");
}

// A minute, with survivors and without; of any rank at any instant. It says how long the runs took to go on.
TEST(LongStoppedRanksTest, AMinuteIsWaitedForOrSurvived) {
  constexpr unsigned kSeed = 11;
  constexpr int kStops = 4;  // of each kind
  constexpr double kDeadline = 30;
  Dice dice(kSeed);
  const Recipe recipe = small_dd_ppo(200'000);
  const std::string state = undisturbed_state(recipe);
  Times to_go_on;
  for (int stop = 0; stop < 2 * kStops; ++stop) {
    const std::string survivors = stop % 2 == 0 ? "end" : "take_over";
    const int victim = dice.below(kSurvivingRanks), updates = 1 + dice.below(700);
    const auto instant = dice.within(50ms);
    SCOPED_TRACE(concat("seed ", kSeed, ", stop ", stop, ": rank ", victim, ", ", instant.count(), " us after update ",
                        updates, ", survivors ", survivors));
    const TemporaryFolder scratch;
    const fs::path folder = scratch / "run";
    Command command = training(recipe, folder);
    command.arguments.insert(command.arguments.end(), {"--survivors", survivors});
    if (survivors != "end") command.arguments.insert(command.arguments.end(), {"--deadline", concat(kDeadline)});
    Child launcher(as_ranks(kSurvivingRanks, command, {"--on-death", "continue"}));
    ASSERT_TRUE(reaches_update(launcher, folder, updates));
    std::this_thread::sleep_for(instant);
    const Clock::time_point start = Clock::now();
    if (survivors == "end") {
      ASSERT_TRUE(signal_rank(launcher, victim, SIGSTOP)) << "it ended before the stop; give it more steps";
    } else {
      const std::optional<Loss> loss = lose_rank(launcher, folder, victim, SIGSTOP);
      ASSERT_TRUE(loss) << log_of(folder);
      to_go_on.add(loss->seconds());
    }
    std::this_thread::sleep_until(start + 60s);
    const bool was_there = signal_rank(launcher, victim, SIGCONT);
    const Ended ended = launcher.wait();
    if (was_there) {
      expect_undisturbed(ended, folder, state);
    } else {
      expect_complete(ended, folder, state, 3);
    }
    EXPECT_EQ(was_there, survivors == "end");
  }
  to_go_on.report("to go on after a stop");
  EXPECT_LE(to_go_on.longest(), kDeadline + to_go_on_within());
}

// Whose connection to the store was lost makes a new one: else this would be the end of all signs of life.
TEST(LongStoppedRanksTest, AfterALauncherWasStoppedForTwelveSecondsDeathsAreStillSurvived) {
  const Recipe recipe = small_dd_ppo(100'000'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "continue"));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  launcher.signal(SIGSTOP);
  std::this_thread::sleep_for(12s);  // an answer of the store may take ten
  launcher.signal(SIGCONT);
  const std::int64_t updates = updates_in(folder);
  ASSERT_TRUE(reaches_update(launcher, folder, updates + 1000));
  ASSERT_TRUE(kill_rank(launcher, 2));
  ASSERT_TRUE(says(launcher, folder, "goes on after update", 1));
  EXPECT_THAT(log_of(folder), AllOf(HasSubstr("rank 2 is lost (died: SIGKILL)"), Not(HasSubstr("rank 1 is lost"))));
  launcher.signal(SIGTERM);
  EXPECT_EQ(launcher.wait().exit_code, 130);
}

// Its ranks cannot tell it from one that is gone.
TEST(LongStoppedRanksTest, WithoutAStoreUntilTheDeadlineTheRunEndsAndSaysSo) {
  const Recipe recipe = small_dd_ppo(100'000'000);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Child launcher(with_survivors(recipe, folder, "continue", {"--deadline", "5"}));
  ASSERT_TRUE(reaches_update(launcher, folder, 20));
  launcher.signal(SIGSTOP);
  ASSERT_TRUE(says(launcher, folder, "Z error", 1));
  // Each gives it up by itself; to one that has not yet, a launcher that goes on would be there again.
  const auto any_runs = [&] {
    for (int rank = 0; rank < kSurvivingRanks; ++rank) {
      if (process_of(launcher, rank) != 0) return true;
    }
    return false;
  };
  const Deadline patience = Deadline::after(1min);
  while (any_runs() && !patience.expired()) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(patience.expired());
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "failed");
  EXPECT_THAT(log_of(folder), HasSubstr("has not reached the store for 5 s"));
  launcher.signal(SIGCONT);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("the store at 127.0.0.1"));
}

}  // namespace
}  // namespace tandem::process_test
