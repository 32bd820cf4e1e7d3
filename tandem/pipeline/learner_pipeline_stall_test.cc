// Of the pipeline's threads, when what they call hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/pipeline/learner_pipeline.h"

namespace tandem::pipeline {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A batch is a number, and so is the result of a pass.
using Numbers = LearnerPipeline<int, int, int>;

// Whatever the stage and the instant, a call that hangs for longer than the deadline is an error that names the stage
// and who produced last; all batches are accounted for, and no thread is left once the call has returned.
class StallTest {
 public:
  explicit StallTest(std::uint64_t seed) : seed_(seed), random_(seed, 0) {}

  void run() {
    SCOPED_TRACE(seed_);
    const int workers = 1 + below(3), loaders = 1 + below(2), victim = below(workers + loaders + 1);
    const bool comes_back = below(2) == 0;
    const bool is_worker = victim < workers, is_loader = !is_worker && victim < workers + loaders;
    instant_ = below(20);
    if (comes_back) lasts_ = 3 * kLimit;
    Numbers::Work work{.produce = [this, is_worker, victim](int worker) -> std::optional<Tagged<int>> {
                         if (is_worker && worker == victim) pass();
                         return Tagged<int>{.data = 1, .tag = {.samples = 1}};
                       },
                       .load =
                           [this, is_loader](int& batch, int& buffer) {
                             if (is_loader) pass();
                             buffer = batch;
                           },
                       .learn =
                           [this, is_worker, is_loader](int& buffer, const LearnStep&) {
                             if (!is_worker && !is_loader) pass();
                             return buffer;
                           }};
    PipelineStats stats;
    {
      Numbers pipeline({.workers = workers,
                        .queue = static_cast<std::size_t>(1 + below(3)),
                        .loaders = loaders,
                        .passes = 1 + below(2),
                        .results = static_cast<std::size_t>(1 + below(2)),
                        .stall = kLimit,
                        .grace = comes_back ? 60s : 1ms},
                       {0, 0}, std::move(work), 0, stats);
      const std::string name = is_worker ? concat("rollout ", victim) : is_loader ? "loader " : "learner";
      expect_failure(pipeline, name, comes_back);
      hanging_.close();
    }
    EXPECT_EQ(entered_.load(), left_.load()) << "of the hanging calls";
  }

 private:
  static constexpr std::chrono::milliseconds kLimit{500};

  int below(int end) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(end))); }
  // One call hangs, at the instant.
  void pass() {
    if (calls_.fetch_add(1) != instant_) return;
    ++entered_;
    (void)hanging_.pop({}, Deadline::after(lasts_));
    ++left_;
  }

  void expect_failure(Numbers& pipeline, const std::string& name, bool comes_back) {
    try {
      while (pipeline.next()) {
      }
      ADD_FAILURE() << "the run has ended by itself";
    } catch (const DeadlineExceeded& error) {
      const std::string text = error.what();
      EXPECT_THAT(text, HasSubstr("in one call: "));
      EXPECT_THAT(text, HasSubstr(name));
      EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("came so far, the last from rollout worker"),
                                         HasSubstr("none came so far")));
      EXPECT_EQ(dynamic_cast<const HungThread*>(&error) != nullptr, !comes_back) << text;
      if (!comes_back) {
        EXPECT_THAT(text, HasSubstr("have not ended in time: "));
      } else {
        EXPECT_EQ(pipeline.buffers().idle() + pipeline.buffers().ready() + pipeline.held_by_learner(), 2u);
      }
    }
  }

  const std::uint64_t seed_;
  Philox random_;
  int instant_ = 0;
  Clock::duration lasts_ = Clock::duration::max();  // of the call that hangs
  std::atomic<int> calls_{0}, entered_{0}, left_{0};
  BoundedQueue<int> hanging_{1};  // never has anything
};

TEST(LearnerPipelineStallTest, EndsWhereverAStageHangs) {
  constexpr std::uint64_t kSeeds = 200, kTogether = 50;
  std::atomic<std::uint64_t> next{0};
  std::vector<std::jthread> threads;
  for (std::uint64_t i = 0; i < kTogether; ++i) {
    threads.emplace_back([&next] {
      for (std::uint64_t seed = next++; seed < kSeeds; seed = next++) StallTest(seed).run();
    });
  }
}

TEST(LearnerPipelineStallTest, AStalledWorkerEndsTheRunThoughOthersProduce) {
  std::stop_source released;
  BoundedQueue<int> never(1);
  Numbers::Work work{.produce = [&](int worker) -> std::optional<Tagged<int>> {
                       if (worker == 1) (void)never.pop(released.get_token());
                       return Tagged<int>{.data = 1, .tag = {.producer = worker, .samples = 1}};
                     },
                     .load = [](int& batch, int& buffer) { buffer = batch; },
                     .learn = [](int& buffer, const LearnStep&) { return buffer; }};
  PipelineStats stats;
  Numbers pipeline({.workers = 2, .stall = 1s, .grace = 1ms}, {0}, std::move(work), 0, stats);
  struct Release {
    ~Release() { source.request_stop(); }
    std::stop_source& source;
  } const release{released};  // before the pipeline's destructor waits for the worker
  std::int64_t results = 0;
  try {
    for (;; ++results) ASSERT_TRUE(pipeline.next().has_value());
  } catch (const HungThread& error) {
    EXPECT_THAT(error.what(), StartsWith("in one call: rollout 1 for 1"));
    EXPECT_THAT(error.what(), HasSubstr("the last from rollout worker 0 0 s ago"));
  }
  EXPECT_GT(results, 10);
}

}  // namespace
}  // namespace tandem::pipeline
