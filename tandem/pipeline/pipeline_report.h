// pipeline/pipeline_report.h: what a pipeline did and who of it waited for whom, in numbers.
//
// Threads: single-thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tandem::pipeline {

/// How old the policies were that made what the learner learns from. The lag of a batch is the number of learner steps
/// between the parameters that it was made with and those that learn from it. Each pass over a batch counts.
class PolicyLag {
 public:
  /// Lags 0 .. kBins - 2 have a bin each, larger ones share the last.
  static constexpr std::size_t kBins = 17;

  /// Throws InvariantError for a negative lag: such a batch is from the future, of another run.
  void add(std::int64_t lag);
  /// Adds the lags of another learner.
  void add(const PolicyLag& other);

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Zero when there is no lag.
  [[nodiscard]] double mean() const;
  [[nodiscard]] std::int64_t max() const { return max_; }
  [[nodiscard]] const std::array<std::int64_t, kBins>& histogram() const { return bins_; }

 private:
  std::int64_t count_ = 0, sum_ = 0, max_ = 0;
  std::array<std::int64_t, kBins> bins_{};
};

/// A plain value: its bytes may travel between ranks. Times and sizes of the queue are over the last kWindow batches,
/// zero before the first.
struct PipelineReport {
  static constexpr std::size_t kWindow = 50;

  // Figures that a run writes into its metrics. Idle shares and lags are since the last report.
  std::int64_t learner_steps = 0;    // passes over batches
  std::int64_t samples_sampled = 0;  // by the rollout workers, those still on their way included
  std::int64_t samples_trained = 0;  // each pass counts
  std::int64_t samples_dropped = 0;  // since they were too old
  double policy_lag_mean = 0;        // in learner steps
  std::int64_t policy_lag_max = 0;
  double learner_queue_size = 0;  // mean of the batches that waited when the learner began a step
  double learner_queue_size_std = 0, learner_queue_size_min = 0, learner_queue_size_median = 0;
  double learner_queue_size_q90 = 0, learner_queue_size_max = 0;
  double learner_grad_time_ms = 0;            // of learning from a batch
  double learner_load_time_ms = 0;            // of copying a batch to the learner
  double learner_load_wait_time_ms = 0;       // that the learner waited for a loaded batch
  double learner_dequeue_time_ms = 0;         // that a loader waited for a batch
  double learner_idle = 0, workers_idle = 0;  // shares of their time in which they waited

  // Other figures, which serve the run itself.
  std::int64_t batches = 0;   // that came to the learner
  PolicyLag lag, lag_of_run;  // since the last report; since the start
  double learner_idle_of_run = 0, workers_idle_of_run = 0;
  double learner_wait_seconds = 0;  // for batches, since the last report

  /// Writes policy_lag_mean and policy_lag_max from `lag`.
  void summarize_lag();
};

/// How one figure of all ranks is made from the figures of each.
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
[[nodiscard]] PipelineReport combined(std::span<const PipelineReport> reports);

/// A line for the person at the terminal: which side of the pipeline held the other up in the run, and what would help.
[[nodiscard]] std::string advice(const PipelineReport& report);

}  // namespace tandem::pipeline
