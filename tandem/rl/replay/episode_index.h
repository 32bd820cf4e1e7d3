// rl/replay/episode_index.h: when the episodes of each environment ended, and which kept end belongs to each.
//
// Rows do not say where their episode ends; this does, in the time of a binary search. Ends of steps that are no longer
// held are dropped as new ones come.
// Memory: 16 bytes for each end, doubled as it grows. Threads: single-thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::rl {

class EpisodeIndex {
 public:
  struct End {
    std::int64_t step = 0;    // the last one of the episode
    std::int64_t record = 0;  // in the ring of ends
  };

  explicit EpisodeIndex(std::int64_t envs) : by_env_(static_cast<std::size_t>(envs)) {}

  /// The episode of `env` ended with `end.step`, later than all before. Ends before step `oldest` are dropped.
  void add(std::int64_t env, const End& end, std::int64_t oldest);
  void clear();

  /// The end of the episode that ended with this very step; nothing where none was kept.
  [[nodiscard]] std::optional<End> at(std::int64_t env, std::int64_t step) const;
  /// The first end at this step or later: that of the episode that the step belongs to, if all ends are kept. Nothing
  /// while the episode goes on.
  [[nodiscard]] std::optional<End> after(std::int64_t env, std::int64_t step) const;
  /// The last end before this step; nothing when it was dropped, or there was none.
  [[nodiscard]] std::optional<End> before(std::int64_t env, std::int64_t step) const;

  [[nodiscard]] std::uint64_t bytes() const;

 private:
  // A queue whose front is dropped by moving `first`; the vector is closed up when half of it is dropped.
  struct Queue {
    std::vector<End> ends;
    std::size_t first = 0;
  };
  [[nodiscard]] std::vector<End>::const_iterator find(const Queue& queue, std::int64_t step) const;

  std::vector<Queue> by_env_;
};

}  // namespace tandem::rl
