#include "tandem/metrics/window_stat.h"

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem {

WindowStat::WindowStat(std::size_t capacity) : capacity_(capacity) {
  TANDEM_CHECK(capacity > 0, "a window of no values");
  values_.reserve(capacity);
}

void WindowStat::add(double value) {
  if (values_.size() < capacity_) {
    values_.push_back(value);
    return;
  }
  // The newest value takes the place of the oldest one, and the next oldest follows it in the ring.
  values_[oldest_] = value;
  oldest_ = (oldest_ + 1) % capacity_;
}

std::vector<double> WindowStat::values() const {
  std::vector<double> ordered(values_.size());
  std::rotate_copy(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(oldest_), values_.end(),
                   ordered.begin());
  return ordered;
}

// Sums the values anew, oldest first. A running sum would depend on values that have left the window.
std::optional<double> WindowStat::mean() const {
  if (values_.empty()) return std::nullopt;
  double sum = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) sum += values_[(oldest_ + i) % values_.size()];
  return sum / static_cast<double>(values_.size());
}

std::optional<double> WindowStat::standard_deviation() const {
  const std::optional<double> center = mean();
  if (!center) return std::nullopt;
  double squares = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const double distance = values_[(oldest_ + i) % values_.size()] - *center;
    squares += distance * distance;
  }
  return std::sqrt(squares / static_cast<double>(values_.size()));
}

std::optional<double> WindowStat::min() const {
  if (values_.empty()) return std::nullopt;
  return *std::min_element(values_.begin(), values_.end());
}

std::optional<double> WindowStat::max() const {
  if (values_.empty()) return std::nullopt;
  return *std::max_element(values_.begin(), values_.end());
}

std::optional<double> WindowStat::quantile(double q) const {
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

}  // namespace tandem
