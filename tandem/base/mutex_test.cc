#include "tandem/base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tandem/base/testing/eventually.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

struct Flag {
  Mutex mutex;
  CondVar changed;
  bool up TANDEM_GUARDED_BY(mutex) = false;

  bool wait(const std::stop_token& stop, const Deadline& deadline) {
    MutexLock lock(mutex);
    return changed.wait(mutex, stop, deadline, [this]() TANDEM_REQUIRES(mutex) { return up; });
  }
  void raise() {
    {
      MutexLock lock(mutex);
      up = true;
    }
    changed.notify_all();
  }
};

TEST(CondVarTest, ANotificationEndsAWait) {
  Flag flag;
  bool seen = false;
  std::jthread waiter([&](const std::stop_token& stop) { seen = flag.wait(stop, Deadline::infinite()); });
  ASSERT_TRUE(eventually([&] { return flag.changed.waiters() == 1; }));
  flag.raise();
  waiter.join();
  EXPECT_TRUE(seen);
  EXPECT_EQ(flag.changed.waiters(), 0u);
}

TEST(CondVarTest, AStopRequestEndsAWait) {
  for (const Deadline& deadline : {Deadline::infinite(), Deadline::after(1h)}) {
    Flag flag;
    bool seen = true;
    std::jthread waiter([&](const std::stop_token& stop) { seen = flag.wait(stop, deadline); });
    ASSERT_TRUE(eventually([&] { return flag.changed.waiters() == 1; }));
    waiter.request_stop();
    waiter.join();
    EXPECT_FALSE(seen);
  }
}

TEST(CondVarTest, ADeadlineEndsAWaitAndNotBefore) {
  Flag flag;
  const Clock::time_point start = Clock::now();
  EXPECT_FALSE(flag.wait(std::stop_token(), Deadline::after(20ms)));
  EXPECT_GE(Clock::now() - start, 20ms);
}

TEST(CondVarTest, AConditionThatHoldsWinsOverStopAndDeadline) {
  Flag flag;
  flag.raise();
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_TRUE(flag.wait(stopped.get_token(), Deadline::after(-1s)));
}

TEST(MutexTest, ExcludesOthersUntilReleased) {
  Mutex mutex;
  mutex.lock();
  std::jthread([&] {
    const bool taken = mutex.try_lock();
    EXPECT_FALSE(taken);
    if (taken) mutex.unlock();
  }).join();
  mutex.unlock();
  const bool taken = mutex.try_lock();
  EXPECT_TRUE(taken);
  if (taken) mutex.unlock();
}

TEST(DeadlineTest, KnowsWhatIsLeft) {
  EXPECT_TRUE(Deadline::after(0s).expired());
  EXPECT_TRUE(Deadline::after(-1h).expired());
  EXPECT_EQ(Deadline::after(-1h).remaining(), 0s);
  const Deadline later = Deadline::after(1h);
  EXPECT_FALSE(later.expired());
  EXPECT_LE(later.remaining(), 1h);
  EXPECT_GT(later.remaining(), 59min);
}

TEST(DeadlineTest, ASpanBeyondTheClockIsInfinite) {
  for (const Deadline& deadline : {Deadline::infinite(), Deadline::after(Clock::duration::max())}) {
    EXPECT_TRUE(deadline.is_infinite());
    EXPECT_FALSE(deadline.expired());
    EXPECT_EQ(deadline.remaining(), Clock::duration::max());
  }
}

}  // namespace
}  // namespace tandem
