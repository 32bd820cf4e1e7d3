// rl/replay/sum_tree.h: numbers of at least 0 with the sums that drawing in proportion to them needs.
//
// A tree of 16 children a node. A sum is always that of its children, added in a fixed order, and never a sum that was
// changed by a difference. So nothing accumulates: the sums follow from the leaves alone, whatever came before, and a
// leaf that is set to 0 is gone exactly.
//
// Cost: set() and find() touch one node a level, five levels for a million leaves. Memory: 8 bytes a leaf and 1/15 of
// that for the sums. Threads: single-thread.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace tandem::rl {

class SumTree {
 public:
  static constexpr std::size_t kChildren = 16;

  /// All leaves are 0. One leaf at least.
  explicit SumTree(std::size_t leaves);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] double get(std::size_t leaf) const { return levels_.front()[leaf]; }
  [[nodiscard]] std::span<const double> leaves() const { return std::span(levels_.front()).first(size_); }
  /// The sum of all leaves.
  [[nodiscard]] double total() const { return levels_.back().front(); }

  /// `value` is finite and at least 0.
  void set(std::size_t leaf, double value);
  /// Sets `count` leaves from `first` on, with less work than one by one.
  void set_range(std::size_t first, std::size_t count, double value);
  /// Changes a leaf without its sums, for many changes that sum_up() ends.
  void put(std::size_t leaf, double value) { levels_.front()[leaf] = value; }
  void sum_up();

  /// The leaf in whose range `at` lies when all leaves are laid end to end; `at` is 0 .. total(). Never a leaf of 0,
  /// also where rounding puts `at` behind the last range. total() must be above 0.
  [[nodiscard]] std::size_t find(double at) const;

  /// Memory of a tree of that many leaves.
  [[nodiscard]] static std::size_t bytes_for(std::size_t leaves);

 private:
  void add_up(std::size_t level, std::size_t node);

  std::size_t size_;
  // The leaves, their sums by 16, and so on; the last level has one number. Each but the last is filled up with zeros
  // to a multiple of 16.
  std::vector<std::vector<double>> levels_;
};

}  // namespace tandem::rl
