#include "tandem/concurrency/bounded_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/testing/limits.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

using testing::kNever;

TEST(BoundedQueueTest, KeepsTheOrderAndTheCapacity) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(int(i), kNever));
  EXPECT_FALSE(queue.push(3, kNever, Deadline::after(1ms)));
  EXPECT_EQ(queue.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(kNever), i);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueueTest, APushThatFailsLeavesItsItem) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.push(std::make_unique<int>(1), kNever));
  auto item = std::make_unique<int>(2);
  EXPECT_FALSE(queue.push(std::move(item), kNever, Deadline::after(1ms)));
  ASSERT_NE(item, nullptr);  // NOLINT(bugprone-use-after-move): a push that fails takes nothing
  queue.close();
  EXPECT_FALSE(queue.push(std::move(item), kNever));
  ASSERT_NE(item, nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(*item, 2);       // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
}

TEST(BoundedQueueTest, CloseWakesABlockedConsumer) {
  BoundedQueue<int> queue(2);
  std::optional<int> got = 7;
  std::jthread consumer([&](const std::stop_token& stop) { got = queue.pop(stop); });
  ASSERT_TRUE(eventually([&] { return queue.blocked_consumers() == 1; }));
  queue.close();
  consumer.join();
  EXPECT_EQ(got, std::nullopt);
}

TEST(BoundedQueueTest, CloseWakesABlockedProducerAndItsItemIsNotQueued) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1, kNever));
  bool pushed = true;
  std::jthread producer([&](const std::stop_token& stop) { pushed = queue.push(2, stop); });
  ASSERT_TRUE(eventually([&] { return queue.blocked_producers() == 1; }));
  queue.close();
  producer.join();
  EXPECT_FALSE(pushed);
  EXPECT_EQ(queue.pop(kNever), 1);  // what was queued is still delivered
  EXPECT_EQ(queue.pop(kNever), std::nullopt);
}

TEST(BoundedQueueTest, AStopRequestWakesBothSides) {
  BoundedQueue<int> empty(1), full(1);
  ASSERT_TRUE(full.push(1, kNever));
  std::optional<int> got = 7;
  bool pushed = true;
  std::jthread consumer([&](const std::stop_token& stop) { got = empty.pop(stop); });
  std::jthread producer([&](const std::stop_token& stop) { pushed = full.push(2, stop); });
  ASSERT_TRUE(eventually([&] { return empty.blocked_consumers() == 1 && full.blocked_producers() == 1; }));
  consumer.request_stop();
  producer.request_stop();
  consumer.join();
  producer.join();
  EXPECT_EQ(got, std::nullopt);
  EXPECT_FALSE(pushed);
  EXPECT_FALSE(empty.closed());
}

TEST(BoundedQueueTest, WhatCanProceedAtOnceDoesSoAfterAStopRequest) {
  BoundedQueue<int> queue(1);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_TRUE(queue.push(1, stopped.get_token()));
  EXPECT_EQ(queue.pop(stopped.get_token()), 1);
  EXPECT_EQ(queue.pop(stopped.get_token()), std::nullopt);
}

TEST(BoundedQueueTest, APopMakesRoomForABlockedProducer) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.push(1, kNever));
  std::jthread producer([&](const std::stop_token& stop) { EXPECT_TRUE(queue.push(2, stop)); });
  ASSERT_TRUE(eventually([&] { return queue.blocked_producers() == 1; }));
  EXPECT_EQ(queue.pop(kNever), 1);
  EXPECT_EQ(queue.pop(kNever), 2);
}

TEST(BoundedQueueTest, EveryItemOfManyProducersArrivesOnce) {
  constexpr int kProducers = 3, kConsumers = 3, kItems = 2000;
  BoundedQueue<int> queue(4);
  std::vector<std::vector<int>> received(kConsumers);
  {
    std::vector<std::jthread> consumers, producers;
    for (auto& mine : received) {
      consumers.emplace_back([&](const std::stop_token&) {
        while (const auto item = queue.pop(kNever)) mine.push_back(*item);
      });
    }
    for (int p = 0; p < kProducers; ++p) {
      producers.emplace_back([&, p] {
        for (int i = 0; i < kItems; ++i) ASSERT_TRUE(queue.push(p * kItems + i, kNever));
      });
    }
    producers.clear();
    queue.close();
  }
  std::vector<int> times(kProducers * kItems, 0);
  for (const auto& mine : received) {
    std::vector<int> last(kProducers, -1);
    for (const int item : mine) {
      ++times[static_cast<std::size_t>(item)];
      EXPECT_GT(item, last[static_cast<std::size_t>(item / kItems)]);  // each producer's order is kept
      last[static_cast<std::size_t>(item / kItems)] = item;
    }
  }
  EXPECT_EQ(times, std::vector<int>(kProducers * kItems, 1));
}

}  // namespace
}  // namespace tandem
