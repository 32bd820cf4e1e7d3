#include "tandem/pipeline/report_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "tandem/base/error.h"

namespace tandem::pipeline {
namespace {

using namespace std::chrono_literals;

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

TEST(ReportNumbersTest, AReportComesBackFromItsNumbers) {
  const PipelineReport report = report_with(4, 30ms, 2, 3);
  const PipelineReport back = report_of(numbers_of(report));
  EXPECT_EQ(numbers_of(back), numbers_of(report));
  EXPECT_EQ(back.steps, 4);
  EXPECT_EQ(back.batches, 5);
  EXPECT_EQ(back.samples_sampled, 40);
  EXPECT_EQ(back.samples_trained, 40);
  EXPECT_EQ(back.samples_dropped, 7);
  EXPECT_EQ(back.lag.count(), 4);
  EXPECT_EQ(back.lag_of_run.max(), 2);
  EXPECT_EQ(back.lag_of_run.histogram(), report.lag_of_run.histogram());
  EXPECT_DOUBLE_EQ(back.learner_idle, 0.75);
  EXPECT_DOUBLE_EQ(back.learner_wait_seconds, 0.12);
  EXPECT_DOUBLE_EQ(back.workers_idle, report.workers_idle);
  EXPECT_EQ(back.queue_size.max, 3);
  EXPECT_THROW((void)report_of(std::array{1.0, 2.0}), InvariantError);
}

TEST(ReportNumbersTest, OfSeveralSamplesAreSummedAndTheLearnerThatWaitedMostCounts) {
  const std::array reports{report_with(4, 30ms, 2, 1), report_with(4, 0ms, 5, 3)};
  const PipelineReport all = combined(reports);
  EXPECT_EQ(all.steps, 4) << "they are made together";
  EXPECT_EQ(all.batches, 10);
  EXPECT_EQ(all.samples_sampled, 80);
  EXPECT_EQ(all.samples_trained, 80);
  EXPECT_EQ(all.samples_dropped, 14);
  EXPECT_DOUBLE_EQ(all.lag.mean(), 3.5);
  EXPECT_EQ(all.lag.max(), 5);
  EXPECT_EQ(all.lag_of_run.count(), 8);
  EXPECT_EQ(all.lag_of_run.histogram()[2], 4);
  EXPECT_EQ(all.lag_of_run.histogram()[5], 4);
  EXPECT_DOUBLE_EQ(all.learner_idle, 0.75);
  EXPECT_DOUBLE_EQ(all.learner_idle_of_run, 0.75);
  EXPECT_DOUBLE_EQ(all.workers_idle, reports[0].workers_idle);
  EXPECT_DOUBLE_EQ(all.load_wait_ms, 15);
  EXPECT_DOUBLE_EQ(all.queue_size.mean, 2);
}

}  // namespace
}  // namespace tandem::pipeline
