// pipeline/pipeline_stats.h: what a pipeline did and who of it waited for whom, in numbers.
//
// Threads: PipelineStats by all, the rest by one.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"
#include "tandem/metrics/window_stat.h"

namespace tandem::pipeline {

/// How old the policies were that made what the learner learns from. The lag of a batch is the number of learner steps
/// between the parameters that it was made with and those that learn from it. Each pass over a batch counts.
class PolicyLag {
 public:
  /// Lags 0 .. kBins - 2 have a bin each, larger ones share the last.
  static constexpr std::size_t kBins = 17;

  /// Throws InvariantError for a negative lag: such a batch is from the future, of another run.
  /// Counts one pass whose parameters were `lag` learner steps newer than those of the batch.
  void add(std::int64_t lag);
  /// Adds the lags of another learner.
  void add(const PolicyLag& other);

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Zero when there is no lag.
  [[nodiscard]] double mean() const {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }
  /// The largest lag, exact even where the last bin holds a range.
  [[nodiscard]] std::int64_t max() const { return max_; }
  [[nodiscard]] const std::array<std::int64_t, kBins>& histogram() const { return bins_; }

 private:
  // Kept as sums, so that adding another learner's lags gives the exact mean.
  std::int64_t count_ = 0, sum_ = 0, max_ = 0;
  std::array<std::int64_t, kBins> bins_{};
};

/// A plain value: its bytes may travel between ranks. Times and sizes of the queue are over the last kWindow batches,
/// zero before the first.
struct PipelineReport {
  // Batches that window means, quantiles and extremes are over, as RLlib has it.
  static constexpr std::size_t kWindow = 50;

  // Figures that a run writes into its metrics. Idle shares and lags are since the last report.
  // Passes over batches. A dropped batch makes none.
  std::int64_t learner_steps = 0;
  // Environment steps that the rollout workers made, batches still on their way included.
  std::int64_t samples_sampled = 0;
  // Environment steps learned from; each pass counts.
  std::int64_t samples_trained = 0;
  // Environment steps of batches that were too old to be learned from.
  std::int64_t samples_dropped = 0;
  // Policy lags are counted in learner steps.
  double policy_lag_mean = 0;
  std::int64_t policy_lag_max = 0;
  // Batches that waited in the queue when the learner began a step: the mean, then the other moments over the window.
  double learner_queue_size = 0;
  double learner_queue_size_std = 0, learner_queue_size_min = 0, learner_queue_size_median = 0;
  double learner_queue_size_q90 = 0, learner_queue_size_max = 0;
  // Mean time of one step of the learner, without its wait for the batch.
  double learner_grad_time_ms = 0;
  // Mean time of copying one batch to the learner's device.
  double learner_load_time_ms = 0;
  // Mean time that the learner waited for a loaded batch.
  double learner_load_wait_time_ms = 0;
  // Mean time that a loader with an idle buffer waited for a batch.
  double learner_dequeue_time_ms = 0;
  // The share of their time in which they waited, from 0 to 1.
  double learner_idle = 0, workers_idle = 0;

  // Other figures, which serve the run itself.
  // Batches that came to the learner, dropped ones included.
  std::int64_t batches = 0;
  // `lag` begins anew with each report; `lag_of_run` goes back to the start.
  PolicyLag lag, lag_of_run;
  double learner_idle_of_run = 0, workers_idle_of_run = 0;
  // Time that the learner waited for batches since the last report.
  double learner_wait_seconds = 0;

  /// Writes policy_lag_mean and policy_lag_max from `lag`.
  void summarize_lag() {
    policy_lag_mean = lag.mean();
    policy_lag_max = lag.max();
  }
};

/// How one figure of all ranks is made from the figures of each.
/// Ranks that one figure cannot speak for are combined; see combined().
enum class OverRanks {
  kEqual,  // all ranks have the same
  kSum,
  kMean,
  kMost,
  kOfLags,  // computed from the lags of all
};

/// Calls visit(name, member, over) for every figure that a run writes into its metrics, in their order there.
template <typename Visit>
void for_each_figure(const Visit& visit) {
  using Report = PipelineReport;
  visit("learner_steps", &Report::learner_steps, OverRanks::kEqual);  // the learners make them together
  visit("samples_sampled", &Report::samples_sampled, OverRanks::kSum);
  visit("samples_trained", &Report::samples_trained, OverRanks::kSum);
  visit("samples_dropped", &Report::samples_dropped, OverRanks::kSum);
  visit("policy_lag_mean", &Report::policy_lag_mean, OverRanks::kOfLags);
  visit("policy_lag_max", &Report::policy_lag_max, OverRanks::kOfLags);
  visit("learner_queue_size", &Report::learner_queue_size, OverRanks::kMean);
  visit("learner_queue_size_std", &Report::learner_queue_size_std, OverRanks::kMean);
  visit("learner_queue_size_min", &Report::learner_queue_size_min, OverRanks::kMean);
  visit("learner_queue_size_median", &Report::learner_queue_size_median, OverRanks::kMean);
  visit("learner_queue_size_q90", &Report::learner_queue_size_q90, OverRanks::kMean);
  visit("learner_queue_size_max", &Report::learner_queue_size_max, OverRanks::kMean);
  visit("learner_grad_time_ms", &Report::learner_grad_time_ms, OverRanks::kMean);
  visit("learner_load_time_ms", &Report::learner_load_time_ms, OverRanks::kMean);
  visit("learner_load_wait_time_ms", &Report::learner_load_wait_time_ms, OverRanks::kMean);
  visit("learner_dequeue_time_ms", &Report::learner_dequeue_time_ms, OverRanks::kMean);
  // While one learner waited for a batch, the others waited for its steps.
  visit("learner_idle", &Report::learner_idle, OverRanks::kMost);
  visit("workers_idle", &Report::workers_idle, OverRanks::kMean);
}

/// The report of several pipelines whose learners make their steps together, one a rank. At least one.
/// Throws InvariantError for an empty list. Means weigh ranks equally, whatever they sampled.
[[nodiscard]] PipelineReport combined(std::span<const PipelineReport> reports);

/// A line for the person at the terminal: which side of the pipeline held the other up in the run, and what would help.
/// Uses the idle shares of the whole run. Below a tenth on both sides the pipeline counts as balanced.
[[nodiscard]] std::string advice(const PipelineReport& report);

/// Collects the figures of a report from the threads of a pipeline. One mutex guards everything. Each call holds it for
/// a few additions, once per batch, so nobody waits noticeably.
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
    [[nodiscard]] double idle() const {
      const double all = static_cast<double>((working + waiting).count());
      return all > 0 ? static_cast<double>(waiting.count()) / all : 0;
    }
    void add(const Share& other) {
      working += other.working;
      waiting += other.waiting;
    }
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
