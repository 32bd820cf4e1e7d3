// rl/replay/priorities.h: the priorities of the rows that can be drawn, and draws in proportion to them.
//
// Rows enter and leave by whole steps, in the order of time, and at most `steps` of them are in. A row's share is
// (priority + epsilon)^alpha; shares are what the tree holds. Where all are 0, every row has the same chance.
// Source: Schaul et al., "Prioritized experience replay" (2016), equations 1 and 2, and section 3.3.
//
// Threads: single-thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/replay/replay_options.h"
#include "tandem/rl/replay/sum_tree.h"

namespace tandem::rl {

class Priorities {
 public:
  /// Room for the rows of `steps` steps of `envs` environments. Nothing is in.
  Priorities(const PriorityOptions& options, std::int64_t steps, std::int64_t envs);

  /// The rows of the next step are in, with the largest priority so far. They are those of step `last()`.
  void enter();
  /// The rows of step first() are out, and cannot be drawn.
  void leave();
  /// The steps whose rows are in: first() to last(); last() is first() - 1 while none is.
  [[nodiscard]] std::int64_t first() const { return first_; }
  [[nodiscard]] std::int64_t last() const { return end_ - 1; }
  [[nodiscard]] std::int64_t rows() const { return (end_ - first_) * envs_; }
  /// As after the construction.
  void clear();

  /// `row` is in. `priority` is finite and at least 0.
  void update(std::int64_t row, double priority);

  /// The row at a `place` of 0 .. 1 when all shares are laid end to end. rows() must be above 0.
  [[nodiscard]] std::int64_t row_at(double place) const;
  /// (R P)^-beta, with the row's chance P among R rows.
  [[nodiscard]] double weight(std::int64_t row, double beta) const;

  /// The mean of the shares that are in, and the largest priority that any row was given so far.
  [[nodiscard]] double mean_share() const { return rows() == 0 ? 0 : tree_.total() / static_cast<double>(rows()); }
  [[nodiscard]] double largest() const { return largest_; }
  /// Memory that is held.
  [[nodiscard]] std::uint64_t bytes() const { return SumTree::bytes_for(tree_.size()); }

  /// The shares of all rows that are in, in the order of rows.
  [[nodiscard]] std::vector<double> shares() const;
  /// Goes back to what largest() and shares() told when steps `first` to `last` were in. False, and nothing is in, if
  /// these numbers cannot be right.
  [[nodiscard]] bool restore(std::int64_t first, std::int64_t last, double largest, std::span<const double> shares);

 private:
  [[nodiscard]] double share_of(double priority) const;
  [[nodiscard]] std::size_t leaf_of(std::int64_t row) const;

  const PriorityOptions options_;
  const std::int64_t steps_, envs_;
  SumTree tree_;  // the rows of step t are at t modulo steps_
  std::int64_t first_ = 0, end_ = 0;
  double largest_ = 1, share_of_new_;  // the second is the first one's share, which takes a pow()
};

/// A priority above this is refused: sums of shares must stay finite.
inline constexpr double kLargestPriority = 1e150;

}  // namespace tandem::rl
