#include "tandem/pipeline/learner_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tandem/base/philox.h"
#include "tandem/base/testing/eventually.h"

namespace tandem::pipeline {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Batches are numbers: worker w makes w * 1000, w * 1000 + 1, ...; the result of a pass is the number learned from.
using Numbers = LearnerPipeline<int, int, int>;

Deadline soon() { return Deadline::after(20s); }

class LearnerPipelineThreadsTest : public ::testing::Test {
 protected:
  static constexpr int kSamples = 10;

  Numbers::Work counting(int batches_each) {
    made.assign(8, 0);
    return {.produce = [this, batches_each](int worker) -> std::optional<Tagged<int>> {
              int& its = made[static_cast<std::size_t>(worker)];
              if (its == batches_each) return std::nullopt;
              return Tagged<int>{.data = worker * 1000 + its++, .tag = {.samples = kSamples}};
            },
            .load = [](int& batch, int& buffer) { buffer = batch; },
            .learn = [](int& buffer, const LearnStep&) { return buffer; }};
  }

  static std::vector<int> all_of(Numbers& pipeline) {
    std::vector<int> results;
    while (const auto result = pipeline.next()) results.push_back(*result);
    return results;
  }

  std::vector<int> made;
  PipelineStats stats;
};

class LearnerPipelineTest : public LearnerPipelineThreadsTest, public ::testing::WithParamInterface<Execution> {};

TEST_P(LearnerPipelineTest, EveryBatchIsLearnedOnceAndEachWorkersInOrder) {
  Numbers pipeline({.execution = GetParam(), .workers = 3, .queue = 2, .loaders = 2}, {0, 0, 0}, counting(50), 0,
                   stats);
  const std::vector<int> results = all_of(pipeline);
  ASSERT_EQ(results.size(), 150u);
  std::vector<int> next{0, 1000, 2000};
  for (const int result : results) EXPECT_EQ(result, next[static_cast<std::size_t>(result / 1000)]++);
  EXPECT_EQ(pipeline.buffers().idle(), 3u);
  EXPECT_EQ(stats.report().samples_sampled, 150 * kSamples);
}

TEST_P(LearnerPipelineTest, TenPassesTrainTenTimesWhatIsSampled) {
  Numbers pipeline({.execution = GetParam(), .workers = 2, .passes = 10, .first_passes = 10}, {0, 0}, counting(20), 0,
                   stats);
  EXPECT_EQ(all_of(pipeline).size(), 400u);
  const PipelineReport report = stats.report();
  EXPECT_EQ(report.samples_sampled, 40 * kSamples);
  EXPECT_EQ(report.samples_trained, 10 * report.samples_sampled);
  EXPECT_EQ(report.batches, 40);
  EXPECT_EQ(report.learner_steps, 400);
}

TEST_P(LearnerPipelineTest, TheLagIsTheStepsSinceTheBatchesPolicy) {
  Numbers::Work work = counting(5);
  std::vector<std::int64_t> lags;
  work.learn = [&](int& buffer, const LearnStep& step) {
    lags.push_back(step.lag);
    return buffer;
  };
  // All batches are of version 7, and the learner is at 9 when it begins.
  work.produce = [produce = work.produce](int worker) {
    auto batch = produce(worker);
    if (batch) batch->tag.version = 7;
    return batch;
  };
  Numbers pipeline({.execution = GetParam()}, {0}, work, 9, stats);
  (void)all_of(pipeline);
  EXPECT_EQ(lags, (std::vector<std::int64_t>{2, 3, 4, 5, 6}));
  EXPECT_EQ(stats.report().lag.max(), 6);
}

// Batches carry the learner's version at the time when they are begun.
Numbers::Work with_versions(Numbers::Work work, std::atomic<std::int64_t>& version) {
  work.produce = [produce = work.produce, &version](int worker) {
    const std::int64_t now = version.load();
    auto batch = produce(worker);
    if (batch) batch->tag.version = now;
    return batch;
  };
  work.learn = [learn = work.learn, &version](int& buffer, const LearnStep& step) {
    ++version;
    return learn(buffer, step);
  };
  return work;
}

TEST_P(LearnerPipelineTest, ABoundOnLagThatIsWaitedForHolds) {
  for (const auto& [bound, passes] : {std::pair{0, 1}, {3, 1}, {8, 1}, {8, 2}, {1, 4}}) {
    SCOPED_TRACE(bound);
    std::atomic<std::int64_t> version{0};
    Numbers::Work work = with_versions(counting(40), version);
    std::int64_t most = 0;
    work.learn = [&, learn = work.learn](int& buffer, const LearnStep& step) {
      if (step.first_pass) most = std::max(most, step.lag);
      return learn(buffer, step);
    };
    Numbers pipeline({.execution = GetParam(),
                      .workers = 3,
                      .queue = 4,
                      .loaders = 2,
                      .passes = passes,
                      .first_passes = passes,
                      .lag_bound = LagBound{.steps = bound, .then = BeyondLag::kWait}},
                     {0, 0, 0}, work, 0, stats);
    EXPECT_EQ(all_of(pipeline).size(), static_cast<std::size_t>(3 * 40 * passes)) << "nothing is lost";
    EXPECT_LE(most, bound);
  }
}

TEST_P(LearnerPipelineTest, DrainingEndsWorkersThatWaitForABoundOnLag) {
  std::atomic<std::int64_t> version{0};
  Numbers pipeline(
      {.execution = GetParam(), .workers = 3, .queue = 4, .lag_bound = LagBound{.steps = 0, .then = BeyondLag::kWait}},
      {0, 0}, with_versions(counting(1'000'000), version), 0, stats);
  std::size_t results = 0;
  for (; results < 5; ++results) ASSERT_TRUE(pipeline.next().has_value());
  pipeline.drain(soon(), [&](int) { ++results; });
  EXPECT_EQ(results, static_cast<std::size_t>(std::accumulate(made.begin(), made.end(), 0)));
}

TEST_P(LearnerPipelineTest, BatchesBeyondABoundOnLagAreDroppedAndCounted) {
  Numbers::Work work = counting(10);
  std::vector<int> dropped;
  work.drop = [&](int& buffer, const LearnStep& step) {
    EXPECT_GT(step.lag, 4);
    dropped.push_back(buffer);
    return -1;
  };
  // All batches are of version 0; only steps that are made count as lag.
  Numbers pipeline({.execution = GetParam(),
                    .passes = 3,
                    .first_passes = 3,
                    .lag_bound = LagBound{.steps = 4, .then = BeyondLag::kDrop}},
                   {0}, work, 0, stats);
  EXPECT_EQ(all_of(pipeline), (std::vector<int>{0, 0, 0, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(dropped, (std::vector<int>{2, 3, 4, 5, 6, 7, 8, 9}));
  const PipelineReport report = stats.report();
  EXPECT_EQ(report.samples_trained, 2 * 3 * kSamples);
  EXPECT_EQ(report.samples_dropped, 8 * kSamples);
  EXPECT_EQ(report.samples_sampled, 10 * kSamples);
  EXPECT_EQ(report.batches, 10);
  EXPECT_EQ(report.learner_steps, 6);
  EXPECT_EQ(pipeline.buffers().idle(), 1u);
}

TEST_P(LearnerPipelineTest, DrainLearnsFromAllThatWasMade) {
  Numbers pipeline({.execution = GetParam(), .workers = 2, .queue = 3, .loaders = 2, .results = 2}, {0, 0},
                   counting(1'000'000), 0, stats);
  std::size_t results = 0;
  for (; results < 20; ++results) ASSERT_TRUE(pipeline.next().has_value());
  pipeline.drain(soon(), [&](int) { ++results; });
  EXPECT_EQ(results, static_cast<std::size_t>(std::accumulate(made.begin(), made.end(), 0)));
  EXPECT_EQ(stats.report().samples_trained, static_cast<std::int64_t>(results) * kSamples);
  EXPECT_EQ(pipeline.next(), std::nullopt);
}

TEST_P(LearnerPipelineTest, AFailureReachesTheOwnerWithTheStagesName) {
  struct Case {
    const char* name;
    void (*break_it)(Numbers::Work&);
  };
  for (const auto& [name, break_it] :
       {Case{"rollout 0: ",
             [](Numbers::Work& work) {
               work.produce = [](int) -> std::optional<Tagged<int>> { throw EnvError("broken"); };
             }},
        Case{"loader 0: ", [](Numbers::Work& work) { work.load = [](int&, int&) { throw EnvError("broken"); }; }},
        Case{"learner: ", [](Numbers::Work& work) {
               work.learn = [](int&, const LearnStep&) -> int { throw EnvError("broken"); };
             }}}) {
    Numbers::Work work = counting(100);
    break_it(work);
    Numbers pipeline({.execution = GetParam()}, {0, 0}, work, 0, stats);
    try {
      (void)all_of(pipeline);
      FAIL() << name;
    } catch (const EnvError& error) {
      EXPECT_EQ(std::string(error.what()), std::string(name) + "broken");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Both, LearnerPipelineTest, ::testing::Values(Execution::kThreads, Execution::kInline),
                         [](const auto& test) { return test.param == Execution::kInline ? "Inline" : "Threads"; });

TEST_F(LearnerPipelineThreadsTest, OnOneThreadTwoRunsAreTheSame) {
  const auto order = [this] {
    Numbers pipeline({.execution = Execution::kInline, .workers = 3, .queue = 2, .loaders = 2, .passes = 3}, {0, 0, 0},
                     counting(7), 0, stats);
    return all_of(pipeline);
  };
  EXPECT_EQ(order(), order());
}

// Whatever holds them up, and wherever it is drained: so their batches are learned from equally often.
TEST_F(LearnerPipelineThreadsTest, OnOneThreadWorkersTakeTurns) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Philox random(seed, 0);
    const auto below = [&random](std::uint64_t end) { return static_cast<int>(random.below(end)); };
    const int workers = 1 + below(4), first = below(static_cast<std::uint64_t>(workers)), passes = 1 + below(4);
    std::optional<LagBound> bound;
    if (below(2) == 0) bound = LagBound{.steps = below(12), .then = BeyondLag::kWait};
    std::vector<int> turns, expected;
    Numbers::Work work = counting(1'000'000);
    work.learn = [&](int& buffer, const LearnStep& step) {
      if (step.first_pass) turns.push_back(step.tag.producer);
      return buffer;
    };
    BatchClaims claims(1, 0, 20 + below(60));
    Numbers pipeline({.execution = Execution::kInline,
                      .workers = workers,
                      .first_worker = first,
                      .queue = static_cast<std::size_t>(1 + below(5)),
                      .loaders = 1 + below(3),
                      .passes = passes,
                      .first_passes = 1 + below(static_cast<std::uint64_t>(passes)),
                      .results = static_cast<std::size_t>(1 + below(3)),
                      .lag_bound = bound,
                      .claims = &claims},
                     {0, 0, 0}, work, 0, stats);
    for (int result = below(200); result > 0 && pipeline.next(); --result) {
    }
    pipeline.drain(soon(), [](int) {});
    for (std::size_t i = 0; i < turns.size(); ++i) expected.push_back((first + static_cast<int>(i)) % workers);
    EXPECT_EQ(turns, expected);
  }
}

TEST_F(LearnerPipelineThreadsTest, ALearnerWithoutBatchesNamesWhoProducedLast) {
  std::stop_source released;
  Numbers::Work work = counting(1);
  BoundedQueue<int> never(1);
  work.produce = [&, produce = work.produce](int worker) {
    auto batch = produce(worker);
    if (!batch) (void)never.pop(released.get_token());
    return batch;
  };
  Numbers pipeline({.workers = 1, .starvation = 1s}, {0}, work, 0, stats);
  EXPECT_TRUE(pipeline.next().has_value());
  ASSERT_TRUE(eventually([&] { return never.blocked_consumers() == 1; }));
  // Only the learner's failure can end the wait for it; the worker is let go when it has been seen to fail.
  std::jthread release([&] {
    (void)eventually([&] { return pipeline.buffers().waiting_for_batch() == 1; });
    (void)eventually([&] { return pipeline.buffers().waiting_for_batch() == 0; });
    released.request_stop();
  });
  try {
    (void)pipeline.next();
    FAIL();
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), StartsWith("learner: no batch to learn from for 1 s"));
    EXPECT_THAT(error.what(), HasSubstr("1 came so far, the last from rollout worker 0"));
  }
}

TEST_F(LearnerPipelineThreadsTest, EveryStageWaitsForTheNextWhenTheOwnerTakesNothing) {
  Numbers pipeline({.workers = 2, .queue = 2, .loaders = 1, .results = 1}, {0}, counting(1000), 0, stats);
  EXPECT_TRUE(eventually([&] { return pipeline.learner_waiting_for_owner() == 1; }));
  EXPECT_TRUE(eventually([&] { return pipeline.buffers().waiting_for_buffer() == 1; }));
  EXPECT_TRUE(eventually([&] { return pipeline.queue().blocked_producers() == 2; }));
}  // and the destructor ends all of these waits

// Faults and ends at seeded instants: a stage throws at its k-th call, or the owner leaves after k results. Whatever
// happens, everything returns, and without a fault nothing is lost.
TEST_F(LearnerPipelineThreadsTest, EndsWhereverAStageFails) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Philox random(seed, 0);
    const auto below = [&random](std::uint64_t end) { return static_cast<int>(random.below(end)); };
    const int stage = below(4), instant = below(30);
    std::atomic<int> calls{0};
    Numbers::Work work = counting(40);
    const auto pass = [&calls, stage, instant](int of) {
      if (of == stage && calls.fetch_add(1) == instant) throw DataError("seeded");
    };
    const Numbers::Work whole = work;
    work.produce = [&](int worker) { return pass(0), whole.produce(worker); };
    work.load = [&](int& batch, int& buffer) { return pass(1), whole.load(batch, buffer); };
    work.learn = [&](int& buffer, const LearnStep& step) { return pass(2), whole.learn(buffer, step); };
    Numbers pipeline({.workers = 1 + below(3),
                      .queue = static_cast<std::size_t>(1 + below(3)),
                      .loaders = 1 + below(2),
                      .passes = 1 + below(2),
                      .results = static_cast<std::size_t>(1 + below(2))},
                     {0, 0}, work, 0, stats);
    if (stage < 3) {
      EXPECT_THROW((void)all_of(pipeline), DataError);
      EXPECT_EQ(pipeline.buffers().idle() + pipeline.buffers().ready() + pipeline.held_by_learner(), 2u);
    } else {
      for (int i = 0; i < instant; ++i) ASSERT_TRUE(pipeline.next().has_value());
    }
  }
}

}  // namespace
}  // namespace tandem::pipeline
