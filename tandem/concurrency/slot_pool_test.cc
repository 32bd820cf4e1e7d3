#include "tandem/concurrency/slot_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/testing/limits.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

using testing::kNever;

TEST(SlotPoolTest, ASlotIsIdleAgainWhenItsLeaseEnds) {
  SlotPool pool(2);
  EXPECT_EQ(pool.idle(), 2u);
  {
    const auto first = pool.acquire(kNever);
    const auto second = pool.acquire(kNever);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->index(), second->index());
    EXPECT_LT(first->index(), 2u);
    EXPECT_LT(second->index(), 2u);
    EXPECT_EQ(pool.idle(), 0u);
    EXPECT_FALSE(pool.try_acquire());
    EXPECT_FALSE(pool.acquire(kNever, Deadline::after(1ms)));
  }
  EXPECT_EQ(pool.idle(), 2u);
}

TEST(SlotPoolTest, AMovedLeaseEndsOnce) {
  SlotPool pool(2);
  SlotPool::Lease first = *pool.try_acquire();
  SlotPool::Lease second = *pool.try_acquire();
  const std::size_t kept = second.index();
  first = std::move(second);  // ends the lease that `first` held
  EXPECT_EQ(pool.idle(), 1u);
  EXPECT_EQ(first.index(), kept);
  SlotPool::Lease& same = first;
  first = std::move(same);
  EXPECT_EQ(pool.idle(), 1u);
  first.give_back();
  first.give_back();
  EXPECT_EQ(pool.idle(), 2u);
}

TEST(SlotPoolTest, TheSlotUsedLastComesFirst) {
  SlotPool pool(3);
  auto first = pool.try_acquire();
  auto second = pool.try_acquire();
  EXPECT_EQ(first->index(), 0u);
  EXPECT_EQ(second->index(), 1u);
  first.reset();
  EXPECT_EQ(pool.try_acquire()->index(), 0u);
}

TEST(SlotPoolTest, AReturnedSlotWakesOneWhoWaits) {
  SlotPool pool(1);
  auto lease = pool.acquire(kNever);
  std::jthread waiter([&](const std::stop_token& stop) {
    const auto mine = pool.acquire(stop);
    EXPECT_TRUE(mine);
  });
  ASSERT_TRUE(eventually([&] { return pool.waiters() == 1; }));
  lease.reset();
  waiter.join();
  EXPECT_EQ(pool.idle(), 1u);
}

TEST(SlotPoolTest, AStopRequestEndsTheWait) {
  SlotPool pool(1);
  const auto lease = pool.acquire(kNever);
  std::jthread waiter([&](const std::stop_token& stop) {
    const auto mine = pool.acquire(stop);
    EXPECT_FALSE(mine);
  });
  ASSERT_TRUE(eventually([&] { return pool.waiters() == 1; }));
  waiter.request_stop();
  waiter.join();
}

TEST(SlotPoolTest, NoTwoThreadsHoldTheSameSlot) {
  SlotPool pool(2);
  std::vector<std::unique_ptr<std::atomic<int>>> holders;
  for (int i = 0; i < 2; ++i) holders.push_back(std::make_unique<std::atomic<int>>(0));
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto lease = pool.acquire(kNever);
        ASSERT_TRUE(lease);
        EXPECT_EQ(holders[lease->index()]->fetch_add(1), 0);
        std::this_thread::yield();
        holders[lease->index()]->fetch_sub(1);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(pool.idle(), 2u);
}

}  // namespace
}  // namespace tandem
