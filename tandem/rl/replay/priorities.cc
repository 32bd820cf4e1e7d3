#include "tandem/rl/replay/priorities.h"

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem::rl {

Priorities::Priorities(const PriorityOptions& options, std::int64_t steps, std::int64_t envs)
    : options_(options),
      steps_(steps),
      envs_(envs),
      tree_(static_cast<std::size_t>(steps * envs)),
      share_of_new_(share_of(largest_)) {}

double Priorities::share_of(double priority) const { return std::pow(priority + options_.epsilon, options_.alpha); }

std::size_t Priorities::leaf_of(std::int64_t row) const {
  return static_cast<std::size_t>(row / envs_ % steps_ * envs_ + row % envs_);
}

void Priorities::enter() {
  TANDEM_CHECK(end_ - first_ < steps_, "step ", end_, " while ", first_, " is in, of ", steps_);
  tree_.set_range(leaf_of(end_ * envs_), static_cast<std::size_t>(envs_), share_of_new_);
  ++end_;
}

void Priorities::leave() {
  TANDEM_CHECK(first_ < end_);
  tree_.set_range(leaf_of(first_ * envs_), static_cast<std::size_t>(envs_), 0);
  ++first_;
}

void Priorities::clear() {
  while (first_ < end_) leave();
  first_ = end_ = 0;
  largest_ = 1;
  share_of_new_ = share_of(largest_);
}

void Priorities::update(std::int64_t row, double priority) {
  if (priority > largest_) {
    largest_ = priority;
    share_of_new_ = share_of(largest_);
  }
  tree_.set(leaf_of(row), share_of(priority));
}

// A leaf tells its step only modulo steps_; the step is the one at or after first_.
std::int64_t Priorities::row_at(double place) const {
  if (tree_.total() == 0) {
    const auto row = static_cast<std::int64_t>(place * static_cast<double>(rows()));
    return first_ * envs_ + std::min(row, rows() - 1);
  }
  const auto leaf = static_cast<std::int64_t>(tree_.find(place * tree_.total()));
  const std::int64_t ahead = (leaf / envs_ - first_ % steps_ + steps_) % steps_;
  return (first_ + ahead) * envs_ + leaf % envs_;
}

double Priorities::weight(std::int64_t row, double beta) const {
  if (tree_.total() == 0) return 1;
  const double chance = tree_.get(leaf_of(row)) / tree_.total();
  return std::pow(static_cast<double>(rows()) * chance, -beta);
}

// They lie in one piece, or in two around the tree's end. A million are copied in a snapshot, so they go as pieces.
std::vector<double> Priorities::shares() const {
  std::vector<double> shares(static_cast<std::size_t>(rows()));
  const std::span<const double> leaves = tree_.leaves();
  const std::size_t begin = leaf_of(first_ * envs_), until_end = std::min(shares.size(), leaves.size() - begin);
  std::ranges::copy(leaves.subspan(begin, until_end), shares.begin());
  std::ranges::copy(leaves.first(shares.size() - until_end), shares.begin() + static_cast<std::ptrdiff_t>(until_end));
  return shares;
}

bool Priorities::restore(std::int64_t first, std::int64_t last, double largest, std::span<const double> shares) {
  clear();
  const std::int64_t steps = last + 1 - first;
  if (first < 0 || steps < 0 || steps > steps_ || shares.size() != static_cast<std::size_t>(steps * envs_) ||
      !(largest >= 1 && largest <= kLargestPriority))
    return false;
  const double most = share_of(largest) * (1 + 1e-12);  // another library's pow() may differ in the last digits
  if (!std::ranges::all_of(shares, [&](double share) { return share >= 0 && share <= most; })) return false;
  first_ = first;
  end_ = last + 1;
  for (std::size_t i = 0; i < shares.size(); ++i)
    tree_.put(leaf_of(first * envs_ + static_cast<std::int64_t>(i)), shares[i]);
  tree_.sum_up();
  largest_ = largest;
  share_of_new_ = share_of(largest_);
  return true;
}

}  // namespace tandem::rl
