#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "tandem/base/error.h"
#include "tandem/pipeline/pipeline_stats.h"

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

// Of a learner that makes `steps` steps, each after so long a wait, from batches of ten samples and this lag.
PipelineReport report_with(int steps, Clock::duration waiting, std::int64_t lag, std::size_t queue_size) {
  PipelineStats stats;
  for (int step = 0; step < steps; ++step) {
    stats.sampled(10);
    stats.produced(3ms, 1ms * steps);
    stats.loaded(2ms, 1ms * steps);
    stats.learned({.queue_size = queue_size,
                   .waiting = waiting,
                   .learning = 10ms,
                   .samples = 10,
                   .lag = lag,
                   .first_pass = true});
  }
  stats.dropped(7);
  return stats.report();
}

TEST(PipelineReportTest, OfSeveralSamplesAreSummedAndTheLearnerThatWaitedMostCounts) {
  const std::array reports{report_with(4, 30ms, 2, 1), report_with(4, 0ms, 5, 3)};
  const PipelineReport all = combined(reports);
  EXPECT_EQ(all.learner_steps, 4) << "they are made together";
  EXPECT_EQ(all.batches, 10);
  EXPECT_EQ(all.samples_sampled, 80);
  EXPECT_EQ(all.samples_trained, 80);
  EXPECT_EQ(all.samples_dropped, 14);
  EXPECT_DOUBLE_EQ(all.lag.mean(), 3.5);
  EXPECT_EQ(all.lag.max(), 5);
  EXPECT_DOUBLE_EQ(all.policy_lag_mean, 3.5);
  EXPECT_EQ(all.policy_lag_max, 5);
  EXPECT_EQ(all.lag_of_run.count(), 8);
  EXPECT_EQ(all.lag_of_run.histogram()[2], 4);
  EXPECT_EQ(all.lag_of_run.histogram()[5], 4);
  EXPECT_DOUBLE_EQ(all.learner_idle, 0.75);
  EXPECT_DOUBLE_EQ(all.learner_idle_of_run, 0.75);
  EXPECT_DOUBLE_EQ(all.workers_idle, reports[0].workers_idle);
  EXPECT_DOUBLE_EQ(all.learner_load_wait_time_ms, 15);
  EXPECT_DOUBLE_EQ(all.learner_queue_size, 2);
}

TEST(PipelineReportTest, TheAdviceNamesTheSideThatWaits) {
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
