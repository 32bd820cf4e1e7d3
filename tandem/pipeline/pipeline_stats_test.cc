#include "tandem/pipeline/pipeline_stats.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tandem/base/error.h"

namespace tandem::pipeline {
namespace {

using namespace std::chrono_literals;

TEST(PolicyLagTest, CountsEveryLagAndSharesTheLastBinAmongTheLarge) {
  PolicyLag lag;
  for (const std::int64_t steps : {0, 0, 3, 16, 99}) lag.add(steps);
  EXPECT_EQ(lag.count(), 5);
  EXPECT_DOUBLE_EQ(lag.mean(), 23.6);
  EXPECT_EQ(lag.max(), 99);
  EXPECT_EQ(lag.histogram()[0], 2);
  EXPECT_EQ(lag.histogram()[3], 1);
  EXPECT_EQ(lag.histogram()[PolicyLag::kBins - 1], 2);
}

TEST(PolicyLagTest, ABatchFromTheFutureIsADefect) {
  PolicyLag lag;
  EXPECT_THROW(lag.add(-1), InvariantError);
}

TEST(PipelineStatsTest, MeansAreOverTheLastFiftyBatches) {
  PipelineStats stats;
  stats.loaded(1ms, 1000ms);
  stats.learned({.queue_size = 9, .waiting = 1ms, .learning = 1000ms, .samples = 1, .lag = 0, .first_pass = true});
  for (int i = 0; i < 50; ++i) {
    stats.loaded(4ms, 2ms);
    stats.learned({.queue_size = 2, .waiting = 3ms, .learning = 5ms, .samples = 1, .lag = 0, .first_pass = true});
  }
  const PipelineReport report = stats.report();
  EXPECT_EQ(report.queue_size.count, 50u);
  EXPECT_EQ(report.queue_size.mean, 2);
  EXPECT_EQ(report.queue_size.max, 2);
  EXPECT_DOUBLE_EQ(report.grad_ms, 5);
  EXPECT_DOUBLE_EQ(report.load_ms, 2);
  EXPECT_DOUBLE_EQ(report.load_wait_ms, 3);
  EXPECT_DOUBLE_EQ(report.dequeue_ms, 4);
}

TEST(PipelineStatsTest, CountsSampledAndTrainedApart) {
  PipelineStats stats;
  stats.sampled(100);
  for (int pass = 0; pass < 3; ++pass) {
    stats.learned(
        {.queue_size = 0, .waiting = 0ms, .learning = 1ms, .samples = 100, .lag = pass, .first_pass = pass == 0});
  }
  const PipelineReport report = stats.report();
  EXPECT_EQ(report.samples_sampled, 100);
  EXPECT_EQ(report.samples_trained, 300);
  EXPECT_EQ(report.batches, 1);
  EXPECT_EQ(report.steps, 3);
}

TEST(PipelineStatsTest, IdleSharesAndLagsAreThoseSinceTheLastReport) {
  PipelineStats stats;
  stats.learned({.queue_size = 0, .waiting = 10ms, .learning = 0ms, .samples = 1, .lag = 8, .first_pass = true});
  (void)stats.report();
  stats.learned({.queue_size = 0, .waiting = 3ms, .learning = 1ms, .samples = 1, .lag = 2, .first_pass = true});
  stats.produced(1ms, 1ms);
  const PipelineReport report = stats.report();
  EXPECT_DOUBLE_EQ(report.learner_idle, 0.75);
  EXPECT_DOUBLE_EQ(report.workers_idle, 0.5);
  EXPECT_DOUBLE_EQ(report.learner_idle_of_run, 13.0 / 14);
  EXPECT_EQ(report.lag.max(), 2);
  EXPECT_EQ(report.lag_of_run.max(), 8);
  EXPECT_EQ(report.steps, 2);
}

TEST(PipelineStatsTest, TheAdviceNamesTheSideThatWaits) {
  PipelineReport report;
  report.learner_idle_of_run = 0.62;
  EXPECT_EQ(advice(report), "learner idle 62 %: add rollout workers or envs");
  report.workers_idle_of_run = 0.7;
  EXPECT_EQ(advice(report), "rollout workers idle 70 %: the learner is the limit; fewer workers would do");
  report.learner_idle_of_run = report.workers_idle_of_run = 0.04;
  EXPECT_EQ(advice(report), "balanced: learner idle 4 %, rollout workers 4 %");
}

}  // namespace
}  // namespace tandem::pipeline
