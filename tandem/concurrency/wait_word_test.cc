#include "tandem/concurrency/wait_word.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tandem {
namespace {

using namespace std::chrono_literals;

const SpinBudget kNoSpin{};

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
  EXPECT_FALSE(spin_until(SpinBudget{20us}, [] { return false; }));
  int looks = 0;
  EXPECT_TRUE(spin_until(SpinBudget{1h}, [&] { return ++looks == 100; }));
}

}  // namespace
}  // namespace tandem
