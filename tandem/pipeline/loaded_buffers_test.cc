#include <gtest/gtest.h>

#include <thread>

#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/testing/limits.h"
#include "tandem/pipeline/batches.h"

namespace tandem::pipeline {
namespace {

using tandem::testing::kAtOnce;
const auto kCopy = [](int from, int& to) { to = from; };

Limits until(const std::stop_token& stop) { return {.deadline = Deadline::infinite(), .stop = stop}; }

void put(BatchQueue<int>& queue, int data) {
  ASSERT_TRUE(queue.push({.data = data, .tag = {.producer = 0, .version = data, .samples = 1}}, kAtOnce));
}

class LoadedBuffersTest : public ::testing::Test {
 protected:
  Progress load(LoadedBuffers<int>& buffers) { return buffers.load_one(queue, kCopy, kAtOnce, times); }

  // What the next ready batch holds; -1 when there is none.
  static int next_of(LoadedBuffers<int>& buffers) {
    const auto loaded = buffers.pop(kAtOnce);
    return loaded ? loaded->buffer() : -1;
  }

  BatchQueue<int> queue{8, 1};
  LoadTimes times;
};

TEST_F(LoadedBuffersTest, MoreLoadersThanBuffersAreAnError) {
  EXPECT_THROW(LoadedBuffers<int>({0, 0}, 3), ConfigError);
  EXPECT_THROW(LoadedBuffers<int>({0}, 0), ConfigError);
}

TEST_F(LoadedBuffersTest, ABufferIsIdleAgainWhenItsBatchIsDropped) {
  LoadedBuffers<int> buffers({0}, 1);
  put(queue, 4);
  put(queue, 5);
  EXPECT_EQ(load(buffers), Progress::kMade);
  EXPECT_EQ(buffers.idle(), 0u);
  EXPECT_EQ(load(buffers), Progress::kNone);
  EXPECT_EQ(queue.size(), 1u) << "no batch is taken without a buffer for it";
  {
    const auto loaded = buffers.pop(kAtOnce);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->buffer(), 4);
    EXPECT_EQ(loaded->tag().version, 4);
    EXPECT_EQ(buffers.idle(), 0u);
  }
  EXPECT_EQ(buffers.idle(), 1u);
  EXPECT_EQ(load(buffers), Progress::kMade);
}

TEST_F(LoadedBuffersTest, ALoaderWaitsForABufferUntilOneIsIdle) {
  LoadedBuffers<int> buffers({0}, 1);
  put(queue, 1);
  put(queue, 2);
  ASSERT_EQ(load(buffers), Progress::kMade);
  std::jthread loader([&](const std::stop_token& stop) {
    EXPECT_EQ(buffers.load_one(queue, kCopy, until(stop), times), Progress::kMade);
  });
  ASSERT_TRUE(eventually([&] { return buffers.waiting_for_buffer() == 1; }));
  buffers.pop(kAtOnce).reset();
  loader.join();
  EXPECT_EQ(next_of(buffers), 2);
}

TEST_F(LoadedBuffersTest, BatchesBecomeReadyInTheOrderOfTheQueueWhicheverLoadsFaster) {
  LoadedBuffers<int> buffers({0, 0}, 2);
  put(queue, 1);
  put(queue, 2);
  std::atomic<bool> first_may_end{false};
  std::atomic<int> loading{0};
  const auto slow_first = [&](int from, int& to) {
    ++loading;
    while (from == 1 && !first_may_end) std::this_thread::yield();
    to = from;
  };
  LoadTimes times_of_two;
  std::jthread one([&](const std::stop_token& stop) {
    EXPECT_EQ(buffers.load_one(queue, slow_first, until(stop), times), Progress::kMade);
  });
  ASSERT_TRUE(eventually([&] { return loading == 1; }));
  std::jthread two([&](const std::stop_token& stop) {
    EXPECT_EQ(buffers.load_one(queue, slow_first, until(stop), times_of_two), Progress::kMade);
  });
  EXPECT_TRUE(eventually([&] { return buffers.waiting_for_turn() == 1; }));
  EXPECT_EQ(buffers.ready(), 0u);
  first_may_end = true;
  one.join();
  two.join();
  EXPECT_EQ(next_of(buffers), 1);
  EXPECT_EQ(next_of(buffers), 2);
}

TEST_F(LoadedBuffersTest, AFailedLoadGivesItsBufferBackAndEndsTheWaitOfTheNext) {
  LoadedBuffers<int> buffers({0, 0}, 2);
  put(queue, 1);
  put(queue, 2);
  std::atomic<bool> fail{false};
  const auto first_fails = [&](int from, int& to) {
    while (from == 1 && !fail) std::this_thread::yield();
    if (from == 1) throw DataError("a batch that cannot be read");
    to = from;
  };
  std::jthread one([&](const std::stop_token& stop) {
    EXPECT_THROW(buffers.load_one(queue, first_fails, until(stop), times), DataError);
  });
  ASSERT_TRUE(eventually([&] { return queue.size() == 1; }));
  LoadTimes times_of_two;
  std::jthread two([&](const std::stop_token& stop) {
    EXPECT_THROW(buffers.load_one(queue, first_fails, until(stop), times_of_two), GroupAborted);
  });
  EXPECT_TRUE(eventually([&] { return buffers.waiting_for_turn() == 1; }));
  fail = true;
  one.join();
  two.join();
  EXPECT_EQ(buffers.idle(), 2u);
}

TEST_F(LoadedBuffersTest, AStopRequestWakesALoaderWhereverItWaits) {
  LoadedBuffers<int> buffers({0, 0}, 2);
  LoadTimes times_of_two;
  Progress one_made = Progress::kMade, two_made = Progress::kMade;
  std::jthread one([&](const std::stop_token& stop) { one_made = buffers.load_one(queue, kCopy, until(stop), times); });
  ASSERT_TRUE(eventually([&] { return queue.blocked_consumers() == 1; }));
  std::jthread two(
      [&](const std::stop_token& stop) { two_made = buffers.load_one(queue, kCopy, until(stop), times_of_two); });
  ASSERT_TRUE(eventually([&] { return buffers.waiting_for_intake() == 1; }));
  two.request_stop();
  EXPECT_TRUE(eventually([&] { return buffers.waiting_for_intake() == 0; }));
  EXPECT_EQ(queue.blocked_consumers(), 1u);
  one.request_stop();
  one.join();
  two.join();
  EXPECT_TRUE(one_made == Progress::kNone && two_made == Progress::kNone);
  EXPECT_EQ(buffers.idle(), 2u);
}

TEST_F(LoadedBuffersTest, TheLastLoaderThatEndsEndsTheReadyBatches) {
  LoadedBuffers<int> buffers({0, 0}, 2);
  put(queue, 1);
  queue.producer_ended();
  EXPECT_EQ(load(buffers), Progress::kMade);
  EXPECT_EQ(load(buffers), Progress::kEnded);
  buffers.loader_ended();
  EXPECT_FALSE(buffers.drained());
  EXPECT_TRUE(buffers.pop(kAtOnce).has_value());
  EXPECT_FALSE(buffers.drained()) << "the other loader may still bring one";
  buffers.loader_ended();
  EXPECT_TRUE(buffers.drained());
}

}  // namespace
}  // namespace tandem::pipeline
