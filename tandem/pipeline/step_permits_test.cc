#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/testing/limits.h"
#include "tandem/pipeline/admission.h"
#include "tandem/pipeline/learner_pipeline.h"

namespace tandem::pipeline {
namespace {

using tandem::testing::kAtOnce;

TEST(StepPermitsTest, AsManyStepsAsWereGranted) {
  StepPermits permits;
  EXPECT_FALSE(permits.await(kAtOnce));
  permits.grant(2);
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(permits.await(kAtOnce));
    EXPECT_TRUE(permits.await(kAtOnce)) << "to ask takes nothing";
    permits.use();
  }
  EXPECT_FALSE(permits.await(kAtOnce));
  EXPECT_THROW(permits.use(), InvariantError);
  permits.open();
  for (int step = 0; step < 100; ++step) {
    EXPECT_TRUE(permits.await(kAtOnce));
    permits.use();
  }
}

TEST(StepPermitsTest, WhoWaitsIsWokenByAPermitAndByAStop) {
  StepPermits permits;
  std::atomic<int> made = 0;
  std::jthread learner([&](const std::stop_token& stop) {
    while (permits.await({.deadline = Deadline::infinite(), .stop = stop})) {
      permits.use();
      ++made;
    }
  });
  ASSERT_TRUE(eventually([&] { return permits.waiters() == 1; }));
  permits.grant(3);
  ASSERT_TRUE(eventually([&] { return made == 3 && permits.waiters() == 1; }));
  learner.request_stop();
  learner.join();
  EXPECT_EQ(made, 3);
}

// The workers fill what there is room for meanwhile.
TEST(StepPermitsTest, ALearnerWithoutAPermitRestsThoughBatchesWait) {
  for (const Execution execution : {Execution::kThreads, Execution::kInline}) {
    StepPermits permits;
    PipelineStats stats;
    std::atomic<int> steps = 0;
    LearnerPipeline<int, int, int> pipeline(
        {.execution = execution, .queue = 2, .results = 8, .permits = &permits}, {0, 0},
        {.produce = [](int) -> std::optional<Tagged<int>> { return Tagged<int>{.data = 1, .tag = {.samples = 1}}; },
         .load = [](int& batch, int& buffer) { buffer = batch; },
         .learn =
             [&steps](int& buffer, const LearnStep&) {
               ++steps;
               return buffer;
             }},
        0, stats);
    for (int granted = 3; granted <= 9; granted += 3) {
      permits.grant(3);
      for (int step = 0; step < 3; ++step) EXPECT_TRUE(pipeline.next().has_value());
      if (execution == Execution::kThreads) {
        ASSERT_TRUE(eventually([&] { return permits.waiters() == 1 && pipeline.queue().size() == 2; }));
      }
      EXPECT_EQ(steps, granted);
    }
  }
}

TEST(BatchClaimsTest, AreGivenUntilTheLimit) {
  BatchClaims claims(10, 5, 30);
  for (int batch = 0; batch < 3; ++batch) EXPECT_TRUE(claims.claim());
  EXPECT_FALSE(claims.claim());
  EXPECT_EQ(claims.hold(), 35);
  claims.release(45);
  EXPECT_TRUE(claims.claim());
  EXPECT_FALSE(claims.claim());
}

TEST(BatchClaimsTest, WhoAsksMeanwhileIsToldOnceTheyAreReleased) {
  BatchClaims claims(10, 0, 1000);
  ASSERT_TRUE(claims.claim());
  EXPECT_EQ(claims.hold(), 10);
  std::atomic<int> given = 0;
  std::jthread producer([&] {
    while (claims.claim()) ++given;
  });
  ASSERT_TRUE(eventually([&] { return claims.waiters() == 1; }));
  EXPECT_EQ(given, 0);
  claims.release(30);
  producer.join();
  EXPECT_EQ(given, 2);
}

}  // namespace
}  // namespace tandem::pipeline
