#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/testing/limits.h"
#include "tandem/pipeline/batches.h"

namespace tandem::pipeline {
namespace {

using ::testing::HasSubstr;

using tandem::testing::kAtOnce;

Tagged<int> batch(int data, int producer) { return {.data = data, .tag = {.producer = producer}}; }

TEST(BatchQueueTest, KeepsTheOrderAndTheTags) {
  BatchQueue<int> queue(2, 2);
  ASSERT_TRUE(queue.push(batch(7, 1), kAtOnce));
  ASSERT_TRUE(queue.push(batch(8, 0), kAtOnce));
  const auto first = queue.pop(kAtOnce), second = queue.pop(kAtOnce);
  EXPECT_EQ(first->data, 7);
  EXPECT_EQ(first->tag.producer, 1);
  EXPECT_EQ(second->data, 8);
  EXPECT_FALSE(queue.pop(kAtOnce));
}

TEST(BatchQueueTest, AFullQueueHoldsItsProducerBackUntilOneIsTaken) {
  BatchQueue<int> queue(1, 1);
  ASSERT_TRUE(queue.push(batch(1, 0), kAtOnce));
  std::jthread producer([&](const std::stop_token& stop) {
    EXPECT_TRUE(queue.push(batch(2, 0), {.deadline = Deadline::infinite(), .stop = stop}));
  });
  ASSERT_TRUE(eventually([&] { return queue.blocked_producers() == 1; }));
  EXPECT_EQ(queue.pop(kAtOnce)->data, 1);
  producer.join();
  EXPECT_EQ(queue.pop(kAtOnce)->data, 2);
}

TEST(BatchQueueTest, TheLastProducerThatEndsClosesIt) {
  BatchQueue<int> queue(2, 2);
  ASSERT_TRUE(queue.push(batch(1, 0), kAtOnce));
  queue.producer_ended();
  ASSERT_TRUE(queue.push(batch(2, 1), kAtOnce));
  queue.producer_ended();
  EXPECT_FALSE(queue.push(batch(3, 1), kAtOnce));
  EXPECT_FALSE(queue.drained());
  EXPECT_TRUE(queue.pop(kAtOnce) && queue.pop(kAtOnce));
  EXPECT_TRUE(queue.drained());
}

TEST(BatchQueueTest, TellsWhoProducedLast) {
  BatchQueue<int> queue(3, 4);
  EXPECT_THAT(queue.history(), HasSubstr("none came so far"));
  ASSERT_TRUE(queue.push(batch(1, 1), kAtOnce));
  ASSERT_TRUE(queue.push(batch(1, 3), kAtOnce));
  EXPECT_THAT(queue.history(), HasSubstr("2 of 3 batches queued; 2 came so far, the last from rollout worker 3"));
}

}  // namespace
}  // namespace tandem::pipeline
