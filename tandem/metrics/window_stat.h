// metrics/window_stat.h: statistics of the last N values, such as the returns of the last 100 episodes.
//
// All results depend on the values in the window, oldest first, and not on the history. So equal windows give equal
// bits, also after save and load. The statistics of an empty window are nullopt.
//
// Threads: single-thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tandem {

class WindowStat {
 public:
  /// All memory for the values is taken here. Throws InvariantError for a capacity of 0.
  explicit WindowStat(std::size_t capacity);

  /// Adds the newest value. The oldest value leaves the window when the window is full.
  void add(double value);

  /// The number of values in the window, at most the capacity.
  [[nodiscard]] std::size_t count() const { return values_.size(); }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }

  [[nodiscard]] std::optional<double> mean() const;
  /// The standard deviation of the population (divided by the count), as numpy.std.
  [[nodiscard]] std::optional<double> standard_deviation() const;
  [[nodiscard]] std::optional<double> min() const;
  [[nodiscard]] std::optional<double> max() const;
  /// The quantile `q`, from 0 to 1, linear between neighbours, as numpy.quantile. quantile(0.5) is the median. Sorts a
  /// copy of the window; throws InvariantError for another q.
  [[nodiscard]] std::optional<double> quantile(double q) const;

  /// The values, oldest first. Adding them to an empty window of the same capacity restores this window.
  [[nodiscard]] std::vector<double> values() const;

 private:
  const std::size_t capacity_;
  std::vector<double> values_;  // a ring once it is full
  std::size_t oldest_ = 0;
  mutable std::vector<double> sorted_;  // memory of quantile()
};

}  // namespace tandem
