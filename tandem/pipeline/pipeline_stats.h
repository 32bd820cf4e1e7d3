// pipeline/pipeline_stats.h: what a pipeline did and who of it waited for whom.
//
// Threads: all.
#pragma once
#include <cstdint>
#include <string>

#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"
#include "tandem/metrics/window_stat.h"
#include "tandem/pipeline/policy_lag.h"

namespace tandem::pipeline {

/// Of the values in a window; zeros of none.
struct WindowSummary {
  std::size_t count = 0;
  double mean = 0, standard_deviation = 0, min = 0, median = 0, quantile_90 = 0, max = 0;
};
[[nodiscard]] WindowSummary summary_of(const WindowStat& window);

/// Means are over the last kWindow values, zero of none.
struct PipelineReport {
  static constexpr std::size_t kWindow = 50;

  WindowSummary queue_size{};  // batches that waited when the learner began a step
  // Of a batch: learning from it; copying it to the learner; the learner's wait for a loaded one; a loader's for one.
  double grad_ms = 0, load_ms = 0, load_wait_ms = 0, dequeue_ms = 0;
  std::int64_t batches = 0;          // that came to the learner
  std::int64_t steps = 0;            // of the learner: passes over them
  std::int64_t samples_sampled = 0;  // by the rollout workers, those still on their way included
  std::int64_t samples_trained = 0;  // each pass counts
  std::int64_t samples_dropped = 0;  // since they were too old
  PolicyLag lag, lag_of_run;         // since the last report; ever
  // Shares of their time in which they waited: since the last report, and ever.
  double learner_idle = 0, workers_idle = 0, learner_idle_of_run = 0, workers_idle_of_run = 0;
  double learner_wait_seconds = 0;  // for batches, since the last report
};

/// A line for the person at the terminal: which side of the pipeline held the other up in the run, and what would help.
[[nodiscard]] std::string advice(const PipelineReport& report);

class PipelineStats {
 public:
  /// A rollout worker made a batch of so many samples.
  void sampled(std::int64_t samples);
  /// And has handed it on; `waiting`: for its turn to begin, and for room in the queue.
  void produced(Clock::duration working, Clock::duration waiting);
  void loaded(Clock::duration dequeue, Clock::duration load);

  struct Step {
    std::size_t queue_size = 0;
    Clock::duration waiting{0}, learning{0};  // for the batch, and from it
    std::int64_t samples = 0, lag = 0;
    bool first_pass = true;
  };
  void learned(const Step& step);
  /// A batch was too old to be learned from.
  void dropped(std::int64_t samples);

  /// Everything so far; begins the next span of what is counted since the last report.
  [[nodiscard]] PipelineReport report();

 private:
  struct Share {
    Clock::duration working{0}, waiting{0};
    [[nodiscard]] double idle() const;
    void add(const Share& other);
  };

  Mutex mutex_;
  PipelineReport now_ TANDEM_GUARDED_BY(mutex_);
  Share learner_ TANDEM_GUARDED_BY(mutex_), workers_ TANDEM_GUARDED_BY(mutex_);  // since the last report
  Share learner_before_ TANDEM_GUARDED_BY(mutex_), workers_before_ TANDEM_GUARDED_BY(mutex_);
  WindowStat queue_size_ TANDEM_GUARDED_BY(mutex_){PipelineReport::kWindow};
  WindowStat grad_ TANDEM_GUARDED_BY(mutex_){PipelineReport::kWindow};
  WindowStat load_ TANDEM_GUARDED_BY(mutex_){PipelineReport::kWindow};
  WindowStat load_wait_ TANDEM_GUARDED_BY(mutex_){PipelineReport::kWindow};
  WindowStat dequeue_ TANDEM_GUARDED_BY(mutex_){PipelineReport::kWindow};
};

}  // namespace tandem::pipeline
