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
  /// One kept end: the last step of its episode, and the record in the ring of ends that has its last observation. The
  /// record of an end before the oldest step may be gone.
  struct End {
    std::int64_t step = 0, record = 0;
  };

  /// For environments 0 .. envs - 1, of which no end is known.
  explicit EpisodeIndex(std::int64_t envs) : by_env_(static_cast<std::size_t>(envs)) {}

  /// The episode of `env` ended with `end.step`. Ends of the environment before step `oldest` are dropped. Throws
  /// InvariantError unless the step is later than all before.
  void add(std::int64_t env, const End& end, std::int64_t oldest);
  /// Forgets all ends.
  void clear();

  /// The end of the episode that ended with this very step; nothing where none was kept.
  [[nodiscard]] std::optional<End> at(std::int64_t env, std::int64_t step) const;
  /// The first end at this step or later: that of the episode that the step belongs to, if all ends are kept. Nothing
  /// while the episode goes on.
  [[nodiscard]] std::optional<End> after(std::int64_t env, std::int64_t step) const;
  /// The last end before this step; nothing when it was dropped, or there was none.
  [[nodiscard]] std::optional<End> before(std::int64_t env, std::int64_t step) const;

  /// Memory that is held.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  // A queue whose front is dropped by moving `first`; the vector is closed up when half of it is dropped.
  struct Queue {
    std::vector<End> ends;
    std::size_t first = 0;
  };
  // The first end at `step` or later.
  [[nodiscard]] std::vector<End>::const_iterator find(const Queue& queue, std::int64_t step) const;

  std::vector<Queue> by_env_;
};

}  // namespace tandem::rl
