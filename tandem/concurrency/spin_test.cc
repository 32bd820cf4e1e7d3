#include "tandem/concurrency/spin.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tandem/concurrency/wait_word.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

constexpr SpinBudget kUsual{50us};
bool never() { return false; }

void wait_in_vain(Patience& patience, Clock::duration slept) {
  EXPECT_FALSE(patience.look(never));
  std::this_thread::sleep_for(slept);
  patience.slept();
}

TEST(SpinTest, MoreThreadsThanCoresDoNotSpin) {
  EXPECT_GT(spin_budget_for(1).limit.count(), 0);
  EXPECT_EQ(spin_budget_for(usable_cores().whole() + 1).limit.count(), 0);
  EXPECT_FALSE(spin_until(SpinBudget{20us}, [] { return false; }));
  int looks = 0;
  EXPECT_TRUE(spin_until(SpinBudget{1h}, [&] { return ++looks == 100; }));
}

TEST(PatienceTest, WhatIsDueAtOnceChangesNothing) {
  Patience patience(kUsual);
  EXPECT_TRUE(patience.look([] { return true; }));
  EXPECT_EQ(patience.budget().limit, kUsual.limit);
}

TEST(PatienceTest, LongWaitsMakeItLookLessAndLessAndOneThatIsOverInTimeTheUsualAgain) {
  Patience patience(kUsual);
  for (int i = 0; i < 10; ++i) wait_in_vain(patience, 2ms);
  EXPECT_EQ(patience.budget().limit, kUsual.limit / 16);
  // The first looks, which cost no look at the clock, teach nothing.
  int looks = 0;
  ASSERT_TRUE(patience.look([&] { return ++looks > 16; }));
  EXPECT_GE(patience.budget().limit, kUsual.limit);
}

// A thread that slept for a short time may have been waited for by one that sleeps as well: somebody has to look longer
// than a wake-up takes, or all sleep at every wait.
TEST(PatienceTest, AShortSleepMakesItLookLonger) {
  Patience patience(SpinBudget{20ms});  // any sleep below 400 ms is short then
  wait_in_vain(patience, 0ms);
  EXPECT_EQ(patience.budget().limit, 80ms);
}

TEST(PatienceTest, WhatAShortSleepTaughtWearsOffWithWaitsThatNeedNone) {
  Patience patience(SpinBudget{20ms});
  wait_in_vain(patience, 0ms);
  for (int waits = 0; waits < 100; ++waits) {
    const std::chrono::nanoseconds before = patience.budget().limit;
    int looks = 0;
    ASSERT_TRUE(patience.look([&] { return ++looks > 16; }));
    if (waits == 0) {
      EXPECT_LT(patience.budget().limit, before);
      EXPECT_GT(patience.budget().limit, before / 2) << "slowly";
    }
  }
  EXPECT_EQ(patience.budget().limit, 20ms);
}

TEST(PatienceTest, ItNeverLooksLongerThanFourTimesTheUsual) {
  Patience patience(SpinBudget{20ms});
  wait_in_vain(patience, 0ms);
  const Clock::time_point late = Clock::now() + 50ms;
  (void)patience.look([&] { return Clock::now() > late; });
  EXPECT_LE(patience.budget().limit, 80ms);
}

TEST(PatienceTest, WithoutABudgetItOnlyGlances) {
  Patience patience(SpinBudget{});
  int looks = 0;
  EXPECT_FALSE(patience.look([&] { return ++looks < 0; }));
  EXPECT_LT(looks, 100);
  patience.slept();
  EXPECT_EQ(patience.budget().limit.count(), 0);
}

// The other one can only come when it gets the core. It would get it at the end of a time slice, too, so what is tested
// is that the answer is asked for.
TEST(PatienceTest, AWaiterOnTheCoreOfTheOneThatItWaitsForGivesItUp) {
  Patience patience(SpinBudget{1min});
  LastCore core;
  EXPECT_FALSE(core.is_mine()) << "nobody has said where it is";
  std::atomic<bool> is_done{false};
  int asked = 0;
  std::jthread other([&] { is_done.store(true); });
  EXPECT_TRUE(patience.look([&] { return is_done.load() && asked > 0; }, [&] { return ++asked > 0; }));
  EXPECT_GT(asked, 0);
  std::jthread bound([&core] {
    ASSERT_TRUE(bind_this_thread({::sched_getcpu()}));
    core.sign();
    EXPECT_TRUE(core.is_mine());
  });
}

// With two threads on a core, one that does not yield looks until the end of its time slice, a hundred thousand times.
TEST(PatienceTest, AYieldGivesTheCoreToTheOtherOneAtOnce) {
  constexpr int kTurns = 200;
  std::atomic<int> turns{0}, looks{0};
  std::jthread waiter([&] {
    ASSERT_TRUE(bind_this_thread({::sched_getcpu()}));
    std::jthread other([&turns](const std::stop_token& stop) {
      for (; !stop.stop_requested(); ++turns) ::sched_yield();
    });
    Patience patience(SpinBudget{1min}, Between::kYield);
    EXPECT_TRUE(patience.look([&] { return ++looks > 0 && turns >= kTurns; }));
  });
  waiter.join();
  EXPECT_LT(looks, 100 * kTurns);
}

// How many waits of `patience` sleep at once before one yields, whose yield then takes `takes`. The looks before the
// first yield are sixteen.
int waits_that_sleep_at_once(Patience& patience, Clock::duration takes) {
  int waits = 0;
  for (int looks = 0; looks < 17; ++waits) {
    looks = 0;
    (void)patience.look([&] {
      if (++looks == 17) std::this_thread::sleep_for(takes);
      return looks == 17 && takes == 0ms;
    });
  }
  return waits - 1;
}

// Such as when a stranger has the core, who gives it back only at the end of his slice.
TEST(PatienceTest, YieldsThatTakeLongMakeTheNextWaitsSleepAtOnceMoreOfThemEachTime) {
  Patience patience(SpinBudget{10us}, Between::kYield);
  EXPECT_EQ(waits_that_sleep_at_once(patience, 2ms), 0);
  for (const int waits : {1, 2, 4, 8, 16, 32, 64, 128, 256, 256})
    EXPECT_EQ(waits_that_sleep_at_once(patience, 2ms), waits);
}

TEST(PatienceTest, AYieldThatIsShortForgetsTheLongOnes) {
  Patience patience(SpinBudget{2ms}, Between::kYield);
  for (const int waits : {0, 1, 2}) EXPECT_EQ(waits_that_sleep_at_once(patience, 45ms), waits);
  EXPECT_EQ(waits_that_sleep_at_once(patience, 0ms), 4);
  EXPECT_EQ(waits_that_sleep_at_once(patience, 45ms), 0);
  EXPECT_EQ(waits_that_sleep_at_once(patience, 45ms), 1) << "as the first time";
}

// Whoever yields at every look does not ask whose core it is on.
TEST(PatienceTest, OneOfMoreMembersThanCoresYieldsWhoeverItWaitsFor) {
  const auto times_asked = [](Patience patience) {
    int looks = 0, asked = 0;
    (void)patience.look([&] { return ++looks > 17; }, [&] { return ++asked < 0; });  // false where time is short
    return asked;
  };
  EXPECT_EQ(times_asked(patience_among(2, {.bound = 1})), 0);
  EXPECT_GT(times_asked(patience_among(2, {.bound = 2})), 0);
}

TEST(PatienceTest, WhereTimeIsShortAndCoresAreNotAWaiterOnlyGlances) {
  EXPECT_EQ(patience_among(2, {.bound = 2, .quota = 0.5}).budget().limit.count(), 0);
  EXPECT_GT(patience_among(2, {.bound = 2, .quota = 2}).budget().limit.count(), 0);
  EXPECT_GT(patience_among(2, {.bound = 1}).budget().limit.count(), 0) << "it gives its core away";
  EXPECT_GT(patience_among(2, {.bound = 1, .quota = 0.5}).budget().limit.count(), 0);
}

// Many threads of all kinds of patience, with more and with fewer of them than cores and than time, hand a turn round.
TEST(PatienceTest, NoTurnIsLostBetweenManyThreads) {
  constexpr std::uint32_t kThreads = 6, kRounds = 500;
  for (const UsableCores cores : {UsableCores{.bound = 1}, {.bound = 64}, {.bound = 64, .quota = 0.5}}) {
    WaitWord turn;
    std::vector<std::jthread> threads;
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&turn, thread, cores] {
        Patience patience = patience_among(static_cast<int>(kThreads), cores);
        for (std::uint32_t mine = thread; mine < kThreads * kRounds; mine += kThreads) {
          for (std::uint32_t seen = turn.load(); seen != mine;)
            seen = turn.wait_while(seen, patience, Deadline::infinite());
          turn.fetch_add(1);
          turn.wake_all();
        }
      });
    }
    threads.clear();
    EXPECT_EQ(turn.load(), kThreads * kRounds);
  }
}

}  // namespace
}  // namespace tandem
