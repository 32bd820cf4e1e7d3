// pipeline/pipeline_stats.h: collects the figures of pipeline_report.h from the threads of a pipeline.
//
// Threads: all.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"
#include "tandem/metrics/window_stat.h"
#include "tandem/pipeline/pipeline_report.h"

namespace tandem::pipeline {

/// One mutex guards everything. Each call holds it for a few additions, once per batch, so nobody waits noticeably.
class PipelineStats {
 public:
  /// Call it when a rollout worker has made a batch of so many samples, before anybody can learn from it.
  void sampled(std::int64_t samples);
  /// Call it when the worker has handed the batch on. `waiting`: for its turn to begin, and for room in the queue.
  void produced(Clock::duration working, Clock::duration waiting);
  /// Call it for each loaded batch: how long the loader waited for it, and took to copy it.
  void loaded(Clock::duration dequeue, Clock::duration load);

  struct Step {
    std::size_t queue_size = 0;
    Clock::duration waiting{0}, learning{0};  // waiting for the batch, and learning from it
    std::int64_t samples = 0, lag = 0;
    bool first_pass = true;
  };
  /// Call it after each step of the learner.
  void learned(const Step& step);
  /// A batch was too old to be learned from.
  void dropped(std::int64_t samples);

  /// Returns everything so far, and begins the span of the figures since the last report anew.
  [[nodiscard]] PipelineReport report();

 private:
  // Time of one side of the pipeline, summed over its threads. idle() is the waiting part, from 0 to 1.
  struct Share {
    Clock::duration working{0}, waiting{0};
    [[nodiscard]] double idle() const;
    void add(const Share& other);
  };

  Mutex mutex_;
  // Running totals. Figures that are derived from others are written by report() alone.
  PipelineReport now_ TANDEM_GUARDED_BY(mutex_);
  Share learner_ TANDEM_GUARDED_BY(mutex_), workers_ TANDEM_GUARDED_BY(mutex_);  // since the last report
  // Sums up to the last report, for the idle shares of the whole run.
  Share learner_before_ TANDEM_GUARDED_BY(mutex_), workers_before_ TANDEM_GUARDED_BY(mutex_);
  // A window of kWindow values in milliseconds, or in batches for queue_size_.
  struct Window : WindowStat {
    Window() : WindowStat(PipelineReport::kWindow) {}
  };
  Window queue_size_ TANDEM_GUARDED_BY(mutex_), grad_ TANDEM_GUARDED_BY(mutex_), load_ TANDEM_GUARDED_BY(mutex_);
  Window load_wait_ TANDEM_GUARDED_BY(mutex_), dequeue_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::pipeline
