// pipeline/policy_lag.h: how old the policies were that made what the learner learns from.
//
// The lag of a batch is the number of learner steps between the parameters that it was made with and those that learn
// from it. Each pass over a batch counts.
//
// Threads: single-thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::pipeline {

class PolicyLag {
 public:
  /// Lags 0 .. kBins - 2 have a bin each, larger ones share the last.
  static constexpr std::size_t kBins = 17;

  /// Throws InvariantError for a negative lag: such a batch is from the future, of another run.
  void add(std::int64_t lag);

  /// Those of another learner as well.
  void add(const PolicyLag& other);

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Zero of nothing.
  [[nodiscard]] double mean() const;
  [[nodiscard]] std::int64_t max() const { return max_; }
  [[nodiscard]] const std::array<std::int64_t, kBins>& histogram() const { return bins_; }

  /// Everything, in kNumbers numbers, and back.
  static constexpr std::size_t kNumbers = kBins + 2;
  void append_numbers(std::vector<double>& to) const;
  void set_numbers(std::span<const double, kNumbers> numbers);

 private:
  std::int64_t count_ = 0, sum_ = 0, max_ = 0;
  std::array<std::int64_t, kBins> bins_{};
};

}  // namespace tandem::pipeline
