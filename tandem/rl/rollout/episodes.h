// rl/rollout/episodes.h: returns and lengths of finished episodes, in the environment's own rewards.
//
// Threads: single-thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tandem::rl {

/// A plain value, which travels between ranks as four numbers and its metrics (group_results.h).
struct Episode {
  // The undiscounted sum of the environment's own rewards.
  double episode_return = 0;
  std::int64_t length = 0;  // steps
  // The step of the fragment in which the episode ended.
  int step = 0;
  // (step, row) orders the episodes of an update, the same on any topology.
  int row = 0;  // environment and agent, over the whole run
  // By metric of the environment's spec; NaN for one that is not known. Empty where the spec has none, and of agents.
  std::vector<double> metrics = {};
};

/// Adds up the episodes of one env group.
/// Rows are (environment, agent) pairs of the group. Returns are summed in float64.
class EpisodeTracker {
 public:
  /// `first_row`: number in the run of the group's first row.
  EpisodeTracker(int rows, int first_row);

  /// One step's rewards and ends, [rows], and the metrics of rows whose episode ended, [rows, per_row]; none where
  /// `metrics` is empty. The other rows of `metrics` are not looked at.
  void record(int step, const double* reward, const std::uint8_t* terminated, const std::uint8_t* truncated,
              std::span<const double> metrics = {});
  /// Episodes that ended since clear_finished(). Their memory stays for the next ones.
  [[nodiscard]] const std::vector<Episode>& finished() const { return finished_; }
  void clear_finished() { finished_.clear(); }
  /// Forgets those that ended after the first `steps` [rows] steps of their row.
  /// Steps of a row from its `steps` entry on do not count, so episodes that ended there are dropped.
  void keep_within(std::span<const int> steps);

  /// Return and length so far of the episodes under way, by row; written to when a checkpoint is loaded.
  std::vector<double> running_return;
  std::vector<std::int64_t> running_length;

 private:
  int first_row_;
  std::vector<Episode> finished_;
};

/// The last episodes of a run, for means over them.
/// Threads: single-thread, the owner's. The window forgets the oldest episodes beyond its capacity.
class EpisodeWindow {
 public:
  explicit EpisodeWindow(std::size_t capacity = 100) : capacity_(capacity) {}
  /// Adds the episodes of one update in the order of (step, row), whichever groups they come from, and sorts them so.
  void add(std::span<Episode> episodes);
  /// From now on add() calls `told` with each episode, in that order. An exception of it ends add() where it is.
  void listen(std::function<void(const Episode&)> told) { told_ = std::move(told); }
  /// Counts every episode that was ever added.
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] bool empty() const { return episodes_.empty(); }
  [[nodiscard]] bool full() const { return episodes_.size() == capacity_; }
  /// Zero when empty.
  [[nodiscard]] double mean_return() const;
  [[nodiscard]] double mean_length() const;
  /// Over the episodes for which the metric is known; nothing where there is none. `metric`: its place in the spec. The
  /// sum runs from the oldest episode to the newest, so it has the same bits on any topology.
  [[nodiscard]] std::optional<double> mean_metric(std::size_t metric) const;

  [[nodiscard]] const std::vector<Episode>& episodes() const { return episodes_; }
  /// Replaces everything, after a checkpoint was read. `total` may be larger than the number of episodes.
  void restore(std::vector<Episode> episodes, std::int64_t total);

 private:
  const std::size_t capacity_;
  std::vector<Episode> episodes_;  // oldest first
  std::int64_t total_ = 0;
  std::function<void(const Episode&)> told_;  // empty: nobody listens
};

}  // namespace tandem::rl
