#include "tandem/rl/replay/sum_tree.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

std::size_t nodes_above(std::size_t nodes) { return (nodes + SumTree::kChildren - 1) / SumTree::kChildren; }

// Four sums at a time, so that the additions do not wait for one another.
double sum_of_children(const double* child) {
  double sums[4] = {child[0], child[1], child[2], child[3]};
  for (std::size_t i = 4; i < SumTree::kChildren; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += child[i + k];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

SumTree::SumTree(std::size_t leaves) : size_(leaves) {
  TANDEM_CHECK(leaves > 0);
  for (std::size_t nodes = leaves;; nodes = nodes_above(nodes)) {
    levels_.emplace_back(nodes == 1 && !levels_.empty() ? 1 : nodes_above(nodes) * kChildren);
    if (nodes == 1 && levels_.size() > 1) break;
  }
}

std::size_t SumTree::bytes_for(std::size_t leaves) {
  std::size_t numbers = 1;
  for (std::size_t nodes = leaves, level = 0; nodes > 1 || level == 0; nodes = nodes_above(nodes), ++level)
    numbers += nodes_above(nodes) * kChildren;
  return numbers * sizeof(double);
}

void SumTree::add_up(std::size_t level, std::size_t node) {
  levels_[level][node] = sum_of_children(levels_[level - 1].data() + node * kChildren);
}

void SumTree::set(std::size_t leaf, double value) {
  put(leaf, value);
  std::size_t node = leaf;
  for (std::size_t level = 1; level < levels_.size(); ++level) add_up(level, node /= kChildren);
}

void SumTree::set_range(std::size_t first, std::size_t count, double value) {
  if (count == 0) return;
  std::fill_n(levels_.front().begin() + static_cast<std::ptrdiff_t>(first), count, value);
  std::size_t last = first + count - 1;
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    first /= kChildren;
    last /= kChildren;
    for (std::size_t node = first; node <= last; ++node) add_up(level, node);
  }
}

void SumTree::sum_up() {
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    const std::size_t nodes = levels_[level - 1].size() / kChildren;
    for (std::size_t node = 0; node < nodes; ++node) add_up(level, node);
  }
}

// From the root down: what lies before the child is taken off `at`. The sum of a node and the sum of its children one
// after the other differ by roundings, so `at` may lie behind them all; the last child that is not 0 is meant then.
std::size_t SumTree::find(double at) const {
  std::size_t node = 0;
  for (std::size_t level = levels_.size() - 1; level-- > 0;) {
    const double* const child = levels_[level].data() + node * kChildren;
    std::size_t chosen = 0;
    double within = -1;
    for (std::size_t i = 0; i < kChildren && within < 0; ++i) {
      if (child[i] == 0) continue;
      chosen = i;
      if (at < child[i]) within = at;
      at -= child[i];
    }
    at = within >= 0 ? within : child[chosen];
    node = node * kChildren + chosen;
  }
  return node;
}

}  // namespace tandem::rl
