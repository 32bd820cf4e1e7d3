#include "tandem/pipeline/minibatch_buffer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/concurrency/testing/limits.h"

namespace tandem::pipeline {
namespace {

using tandem::testing::kAtOnce;

struct Queue : BoundedQueue<int> {
  using BoundedQueue::BoundedQueue;
  std::optional<int> pop(const Limits& limits) { return BoundedQueue::pop(limits.stop, limits.deadline); }
  void put(int value) { ASSERT_TRUE(push(int(value), {})); }
};

// The batches of the passes until none is there.
template <typename Source>
std::vector<int> all_passes(MinibatchBuffer<int>& buffer, Source& source) {
  std::vector<int> order;
  while (const auto pass = buffer.next(source, kAtOnce)) order.push_back(pass->batch());
  return order;
}

TEST(MinibatchBufferTest, EveryBatchGetsItsPasses) {
  MinibatchBuffer<int> buffer({.slots = 1, .passes = 3, .first_passes = 3});
  Queue queue(4);
  queue.put(7);
  queue.put(8);
  EXPECT_EQ(all_passes(buffer, queue), (std::vector<int>{7, 7, 7, 8, 8, 8}));
}

TEST(MinibatchBufferTest, SlotsTakeTurns) {
  MinibatchBuffer<int> buffer({.slots = 2, .passes = 2, .first_passes = 2});
  Queue queue(4);
  for (const int batch : {1, 2, 3}) queue.put(batch);
  EXPECT_EQ(all_passes(buffer, queue), (std::vector<int>{1, 2, 1, 2, 3, 3}));
}

TEST(MinibatchBufferTest, TheFirstFillsRampUpToAllPasses) {
  MinibatchBuffer<int> buffer({.slots = 1, .passes = 3, .first_passes = 1});
  Queue queue(8);
  for (int batch = 1; batch <= 5; ++batch) queue.put(batch);
  EXPECT_EQ(all_passes(buffer, queue), (std::vector<int>{1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5}));
}

TEST(MinibatchBufferTest, AnEmptySlotDoesNotHoldBackTheOthers) {
  MinibatchBuffer<int> buffer({.slots = 3, .passes = 4, .first_passes = 4});
  Queue queue(4);
  queue.put(1);
  // Slots 1 and 2 are empty and nothing comes; with RLlib's ring the second call would wait.
  for (int pass = 0; pass < 4; ++pass) {
    const auto next = buffer.next(queue, {.deadline = Deadline::infinite(), .stop = {}});
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->batch(), 1);
  }
  EXPECT_EQ(buffer.held(), 0u);
}

TEST(MinibatchBufferTest, WaitsOnlyWhenEverySlotIsEmpty) {
  MinibatchBuffer<int> buffer({.slots = 2, .passes = 1, .first_passes = 1});
  Queue queue(4);
  int got = 0;
  std::jthread learner([&](const std::stop_token& stop) {
    const auto pass = buffer.next(queue, {.deadline = Deadline::infinite(), .stop = stop});
    if (pass) got = pass->batch();
  });
  ASSERT_TRUE(eventually([&] { return queue.blocked_consumers() == 1; }));
  queue.put(5);
  learner.join();
  EXPECT_EQ(got, 5);
}

TEST(MinibatchBufferTest, SaysWhichPassesAreTheFirstAndTheLast) {
  MinibatchBuffer<int> buffer({.slots = 1, .passes = 2, .first_passes = 2});
  Queue queue(1);
  queue.put(1);
  {
    const auto first = buffer.next(queue, kAtOnce);
    EXPECT_TRUE(first->first() && !first->last());
  }
  const auto last = buffer.next(queue, kAtOnce);
  EXPECT_TRUE(!last->first() && last->last());
}

struct Leases {
  std::vector<std::shared_ptr<int>> waiting;
  std::optional<std::shared_ptr<int>> try_pop() {
    if (waiting.empty()) return std::nullopt;
    auto first = waiting.front();
    waiting.erase(waiting.begin());
    return first;
  }
  std::optional<std::shared_ptr<int>> pop(const Limits&) { return try_pop(); }
};

TEST(MinibatchBufferTest, TheLastPassGivesTheBatchBackAlsoWhenLearningFails) {
  const auto batch = std::make_shared<int>(1);
  Leases source{.waiting = {batch}};
  MinibatchBuffer<std::shared_ptr<int>> buffer({.slots = 1, .passes = 2, .first_passes = 2});
  (void)buffer.next(source, kAtOnce);
  EXPECT_GT(batch.use_count(), 1);
  try {
    const auto pass = buffer.next(source, kAtOnce);
    throw std::runtime_error("a loss that fails");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(batch.use_count(), 1);
  }
}

}  // namespace
}  // namespace tandem::pipeline
