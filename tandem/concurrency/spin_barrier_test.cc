#include "tandem/concurrency/spin_barrier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

const SpinBudget kNoSpin{};
const SpinBudget kShortSpin{20us};
const SpinBudget kLongSpin{1h};

// Each member writes its own cell before a barrier and reads all others after it, without any other synchronisation.
void exchange_values(int members, int rounds, SpinBudget spin) {
  SpinBarrier barrier("exchange", members, spin);
  std::vector<std::vector<int>> cells(2, std::vector<int>(static_cast<std::size_t>(members), -1));
  std::vector<std::jthread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      for (int round = 0; round < rounds; ++round) {
        auto& row = cells[static_cast<std::size_t>(round % 2)];
        row[static_cast<std::size_t>(member)] = round * 100 + member;
        barrier.arrive_and_wait(member, Deadline::after(60s));
        for (int other = 0; other < members; ++other) {
          ASSERT_EQ(row[static_cast<std::size_t>(other)], round * 100 + other);
        }
      }
    });
  }
}

TEST(SpinBarrierTest, EveryoneSeesWhatEveryoneWrote) {
  exchange_values(1, 100, kNoSpin);
  exchange_values(2, 3000, kNoSpin);
  exchange_values(2, 3000, kShortSpin);
}

TEST(SpinBarrierTest, WorksWithManyMoreThreadsThanCores) {
  exchange_values(16, 200, kNoSpin);
  exchange_values(16, 200, kShortSpin);
}

TEST(SpinBarrierTest, NobodyPassesBeforeAllHaveArrived) {
  SpinBarrier barrier("gate", 3, kNoSpin);
  std::atomic<int> passed{0};
  std::vector<std::jthread> threads;
  for (int member = 0; member < 2; ++member) {
    threads.emplace_back([&, member] {
      barrier.arrive_and_wait(member, Deadline::infinite());
      ++passed;
    });
  }
  ASSERT_TRUE(eventually([&] { return barrier.arrived() == 2 && barrier.sleepers() == 2; }));
  EXPECT_EQ(passed, 0);
  barrier.arrive_and_wait(2, Deadline::infinite());
  threads.clear();
  EXPECT_EQ(passed, 2);
}

TEST(SpinBarrierTest, AbortFailsThoseWhoSleepAndThoseWhoSpin) {
  for (const SpinBudget spin : {kNoSpin, kLongSpin}) {
    SpinBarrier barrier("doomed", 3, spin);
    std::atomic<int> failed{0};
    std::vector<std::jthread> threads;
    for (int member = 0; member < 2; ++member) {
      threads.emplace_back([&, member] {
        EXPECT_THROW(barrier.arrive_and_wait(member, Deadline::infinite()), GroupAborted);
        ++failed;
      });
    }
    const int sleepers = spin.limit == kNoSpin.limit ? 2 : 0;
    ASSERT_TRUE(eventually([&] { return barrier.arrived() == 2 && barrier.sleepers() == sleepers; }));
    barrier.abort();
    threads.clear();
    EXPECT_EQ(failed, 2);
    EXPECT_TRUE(barrier.aborted());
    EXPECT_THROW(barrier.arrive_and_wait(2, Deadline::infinite()), GroupAborted);
  }
}

TEST(SpinBarrierTest, ADeadlineNamesTheMissingAndAbortsTheRest) {
  SpinBarrier barrier("gradients", 4, kNoSpin);
  std::jthread patient([&] { EXPECT_THROW(barrier.arrive_and_wait(1, Deadline::infinite()), GroupAborted); });
  ASSERT_TRUE(eventually([&] { return barrier.sleepers() == 1; }));
  try {
    barrier.arrive_and_wait(3, Deadline::after(10ms));
    FAIL() << "passed without members 0 and 2";
  } catch (const DeadlineExceeded& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("for member 0, member 2:"), std::string::npos) << text;
    EXPECT_NE(text.find("'gradients' of 4 members"), std::string::npos) << text;
    EXPECT_NE(text.find("member 3 waited 0.01"), std::string::npos) << text;
  }
}

TEST(SpinBarrierTest, ADeadlineAlsoEndsASpin) {
  SpinBarrier barrier("spinning", 2, kShortSpin);
  EXPECT_THROW(barrier.arrive_and_wait(0, Deadline::after(1ms)), DeadlineExceeded);
}

TEST(SpinBarrierTest, RefusesAMemberThatIsNone) {
  SpinBarrier barrier("small", 1, kNoSpin);
  EXPECT_THROW(barrier.arrive_and_wait(1, Deadline::infinite()), InvariantError);
  EXPECT_THROW(SpinBarrier("none", 0, kNoSpin), InvariantError);
}

TEST(WaitWordTest, ADeadlineEndsAWaitAndNotBefore) {
  WaitWord word(5);
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(word.wait_while(5, kNoSpin, Deadline::after(20ms)), 5u);
  EXPECT_GE(Clock::now() - start, 20ms);
  EXPECT_EQ(word.wait_while(4, kNoSpin, Deadline::infinite()), 5u);
  EXPECT_EQ(word.sleepers(), 0);
}

TEST(WaitWordTest, NoWakeUpIsLost) {
  WaitWord ping, pong;
  constexpr std::uint32_t kRounds = 5000;
  std::jthread other([&] {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      ASSERT_EQ(ping.wait_while(i, kNoSpin, Deadline::after(60s)), i + 1);
      pong.fetch_add(1);
      pong.wake_all();
    }
  });
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    ping.fetch_add(1);
    ping.wake_all();
    ASSERT_EQ(pong.wait_while(i, kNoSpin, Deadline::after(60s)), i + 1);
  }
}

TEST(SpinTest, MoreThreadsThanCoresDoNotSpin) {
  EXPECT_GT(spin_budget_for(1).limit.count(), 0);
  EXPECT_EQ(spin_budget_for(available_cores() + 1).limit.count(), 0);
  EXPECT_FALSE(spin_until(kShortSpin, [] { return false; }));
  int looks = 0;
  EXPECT_TRUE(spin_until(kLongSpin, [&] { return ++looks == 100; }));
}

}  // namespace
}  // namespace tandem
