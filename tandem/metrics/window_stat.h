// metrics/window_stat.h: statistics of the last N values, such as the returns of the last 100 episodes.
//
// All results depend on the values in the window, oldest first, and not on the history. So equal windows give equal
// bits, also after save and load. The statistics of an empty window are nullopt.
//
// Threads: single-thread.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

#include "tandem/base/check.h"

namespace tandem {

class WindowStat {
 public:
  /// All memory for the values is taken here. Throws InvariantError for a capacity of 0.
  explicit WindowStat(std::size_t capacity) : capacity_(capacity) {
    TANDEM_CHECK(capacity > 0, "a window of no values");
    values_.reserve(capacity);
  }

  /// Adds the newest value. The oldest value leaves the window when the window is full.
  void add(double value) {
    if (values_.size() == capacity_) values_.erase(values_.begin());
    values_.push_back(value);
  }

  /// The number of values in the window, at most the capacity.
  [[nodiscard]] std::size_t count() const { return values_.size(); }

  // A running sum would depend on values that have left the window.
  [[nodiscard]] std::optional<double> mean() const {
    if (values_.empty()) return std::nullopt;
    return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
  }
  /// The standard deviation of the population (divided by the count), as numpy.std.
  [[nodiscard]] std::optional<double> standard_deviation() const {
    const std::optional<double> center = mean();
    if (!center) return std::nullopt;
    double squares = 0;
    for (const double value : values_) squares += (value - *center) * (value - *center);
    return std::sqrt(squares / static_cast<double>(values_.size()));
  }
  [[nodiscard]] std::optional<double> min() const { return quantile(0); }
  [[nodiscard]] std::optional<double> max() const { return quantile(1); }
  /// The quantile `q`, from 0 to 1, linear between neighbours, as numpy.quantile. quantile(0.5) is the median. Sorts a
  /// copy of the window; throws InvariantError for another q.
  [[nodiscard]] std::optional<double> quantile(double q) const {
    TANDEM_CHECK(q >= 0 && q <= 1, "quantile ", q);
    if (values_.empty()) return std::nullopt;
    sorted_ = values_;
    std::sort(sorted_.begin(), sorted_.end());
    // `place` is a position between two sorted values. The value behind it is read only when the position is past the
    // first of them, so the largest value needs no neighbour.
    const double place = q * static_cast<double>(sorted_.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const double rest = place - static_cast<double>(below);
    return rest == 0 ? sorted_[below] : sorted_[below] + (sorted_[below + 1] - sorted_[below]) * rest;
  }

  /// The values, oldest first. Adding them to an empty window of the same capacity restores this window.
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  const std::size_t capacity_;
  std::vector<double> values_;
  mutable std::vector<double> sorted_;  // memory of quantile()
};

}  // namespace tandem
