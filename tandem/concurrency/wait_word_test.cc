#include "tandem/concurrency/wait_word.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace tandem {
namespace {

using namespace std::chrono_literals;

TEST(WaitWordTest, ADeadlineEndsAWaitAndNotBefore) {
  WaitWord word(5);
  const Clock::time_point start = Clock::now();
  Patience none(SpinBudget{});
  EXPECT_EQ(word.wait_while(5, none, Deadline::after(20ms)), 5u);
  EXPECT_GE(Clock::now() - start, 20ms);
  EXPECT_EQ(word.wait_while(4, none, Deadline::infinite()), 5u);
  EXPECT_EQ(word.sleepers(), 0);
}

TEST(WaitWordTest, AWakeUpWithoutAChangeDoesNotEndAWait) {
  WaitWord word;
  std::atomic<bool> is_over{false};
  std::jthread waiter([&] {
    EXPECT_EQ(word.sleep_while(0, Deadline::infinite()), 1u);
    is_over = true;
  });
  while (word.sleepers() == 0) std::this_thread::yield();
  for (int times = 0; times < 20 && !is_over; ++times) {
    std::this_thread::sleep_for(1ms);  // it may only be about to sleep
    word.wake_all();
  }
  word.fetch_add(1);
  word.wake_all();
}

TEST(WaitWordTest, NoWakeUpIsLost) {
  WaitWord ping, pong;
  constexpr std::uint32_t kRounds = 5000;
  std::jthread other([&] {
    Patience none(SpinBudget{});
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      ASSERT_EQ(ping.wait_while(i, none, Deadline::after(60s)), i + 1);
      pong.fetch_add(1);
      pong.wake_all();
    }
  });
  Patience none(SpinBudget{});
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    ping.fetch_add(1);
    ping.wake_all();
    ASSERT_EQ(pong.wait_while(i, none, Deadline::after(60s)), i + 1);
  }
}

}  // namespace
}  // namespace tandem
