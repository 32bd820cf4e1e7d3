#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "tandem/concurrency/wait_word.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

void await_sleepers(const EventCount& event, int count) {
  while (event.sleepers() != count) std::this_thread::yield();
}

TEST(EventCountTest, ASleeperWakesWhenItsConditionIsNotified) {
  EventCount event;
  std::atomic<bool> flag{false};
  WaitOutcome outcome = WaitOutcome::kStopped;
  std::jthread waiter([&] { outcome = event.wait([&] { return flag.load(); }, {}); });
  await_sleepers(event, 1);
  flag.store(true);
  event.notify_all();
  waiter.join();
  EXPECT_EQ(outcome, WaitOutcome::kReady);
  EXPECT_EQ(event.sleepers(), 0);
}

TEST(EventCountTest, AStopRequestWakesASleeper) {
  EventCount event;
  std::stop_source stop;
  WaitOutcome outcome = WaitOutcome::kReady;
  std::jthread waiter([&] {
    outcome = event.wait([] { return false; }, Limits{.deadline = Deadline::after(60s), .stop = stop.get_token()});
  });
  await_sleepers(event, 1);
  std::this_thread::sleep_for(5ms);  // one that is only about to sleep finds out by itself
  stop.request_stop();
  waiter.join();
  EXPECT_EQ(outcome, WaitOutcome::kStopped);
}

TEST(EventCountTest, ADeadlineEndsTheWaitAndAConditionThatHoldsWinsOverIt) {
  EventCount event;
  const Limits past{.deadline = Deadline::after(1ms), .stop = {}};
  EXPECT_EQ(event.wait([] { return false; }, past), WaitOutcome::kDeadline);
  EXPECT_EQ(event.wait([] { return true; }, past), WaitOutcome::kReady);
}

// The notification comes when the condition was read and the waiter does not sleep yet.
TEST(EventCountTest, ANotificationBetweenTheLookAndTheSleepIsNotLost) {
  EventCount event;
  bool is_due = false;
  const auto becomes_true_behind_the_look = [&] {
    const bool was_due = std::exchange(is_due, true);
    if (!was_due) event.notify_all();
    return was_due;
  };
  EXPECT_EQ(event.wait(becomes_true_behind_the_look, Limits{.deadline = Deadline::after(10s), .stop = {}}),
            WaitOutcome::kReady);
  EXPECT_EQ(event.sleepers(), 0);
}

TEST(EventCountTest, NoWakeUpIsLostBetweenManyThreads) {
  constexpr int kThreads = 4, kRounds = 2000;
  EventCount event;
  std::atomic<int> turn{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        const int mine = round * kThreads + t;
        ASSERT_EQ(event.wait([&] { return turn.load() == mine; }, {}), WaitOutcome::kReady);
        turn.store(mine + 1);
        event.notify_all();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(turn.load(), kThreads * kRounds);
}

}  // namespace
}  // namespace tandem
