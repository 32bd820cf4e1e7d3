#include "tandem/pipeline/pipeline_stats.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tandem::pipeline {
namespace {

using namespace std::chrono_literals;

TEST(PipelineStatsTest, MeansAreOverTheLastFiftyBatches) {
  PipelineStats stats;
  stats.loaded(1ms, 1000ms);
  stats.learned({.queue_size = 9, .waiting = 1ms, .learning = 1000ms, .samples = 1, .lag = 0, .first_pass = true});
  for (int i = 0; i < 50; ++i) {
    stats.loaded(4ms, 2ms);
    stats.learned({.queue_size = 2, .waiting = 3ms, .learning = 5ms, .samples = 1, .lag = 0, .first_pass = true});
  }
  const PipelineReport report = stats.report();
  EXPECT_EQ(report.learner_queue_size, 2);
  EXPECT_EQ(report.learner_queue_size_max, 2);
  EXPECT_DOUBLE_EQ(report.learner_grad_time_ms, 5);
  EXPECT_DOUBLE_EQ(report.learner_load_time_ms, 2);
  EXPECT_DOUBLE_EQ(report.learner_load_wait_time_ms, 3);
  EXPECT_DOUBLE_EQ(report.learner_dequeue_time_ms, 4);
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
  EXPECT_EQ(report.learner_steps, 3);
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
  EXPECT_EQ(report.learner_steps, 2);
}

}  // namespace
}  // namespace tandem::pipeline
