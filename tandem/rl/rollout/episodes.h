// rl/rollout/episodes.h: returns and lengths of finished episodes, in the environment's own rewards.
//
// Threads: single-thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::rl {

struct Episode {
  double episode_return = 0;  // undiscounted sum of the environment's own rewards
  std::int64_t length = 0;    // steps
  int step = 0;               // of the fragment in which it ended
  int row = 0;                // environment and agent, over the whole run
};

/// Adds up the episodes of one env group.
class EpisodeTracker {
 public:
  /// `first_row`: number in the run of the group's first row.
  EpisodeTracker(int rows, int first_row);

  /// One step's rewards and ends, [rows].
  void record(int step, const double* reward, const std::uint8_t* terminated, const std::uint8_t* truncated);
  /// Episodes that ended since clear_finished(). Their memory stays for the next ones.
  [[nodiscard]] const std::vector<Episode>& finished() const { return finished_; }
  void clear_finished() { finished_.clear(); }
  /// Forgets those that ended after the first `steps` [rows] steps of their row.
  void keep_within(std::span<const int> steps);

  /// Return and length so far of the episodes under way, by row; written to when a checkpoint is loaded.
  std::vector<double> running_return;
  std::vector<std::int64_t> running_length;

 private:
  int first_row_;
  std::vector<Episode> finished_;
};

/// The last episodes of a run, for means over them.
class EpisodeWindow {
 public:
  explicit EpisodeWindow(std::size_t capacity = 100) : capacity_(capacity) {}
  /// Adds the episodes of one update in the order of (step, row), whichever groups they come from, and sorts them so.
  void add(std::span<Episode> episodes);
  /// Counts every episode that was ever added.
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] bool empty() const { return episodes_.empty(); }
  [[nodiscard]] bool full() const { return episodes_.size() == capacity_; }
  /// Zero when empty.
  [[nodiscard]] double mean_return() const;
  [[nodiscard]] double mean_length() const;

  [[nodiscard]] const std::vector<Episode>& episodes() const { return episodes_; }
  void restore(std::vector<Episode> episodes, std::int64_t total);

 private:
  const std::size_t capacity_;
  std::vector<Episode> episodes_;  // oldest first
  std::int64_t total_ = 0;
};

}  // namespace tandem::rl
