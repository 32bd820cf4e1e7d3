// app/run/mean_interval.h: the mean of a few runs, and how far the mean of many may lie from it.
//
// Threads: free functions on values.
#pragma once
#include <span>

namespace tandem::app {

/// `half`: half the width of the 95 % confidence interval of the mean (Student's t). `deviation`: of the values, with
/// n - 1 in the denominator.
struct MeanInterval {
  double mean = 0, deviation = 0, half = 0;
};

/// Of at least two values; InvariantError for fewer. NaN when one of them is.
[[nodiscard]] MeanInterval mean_interval(std::span<const double> values);

}  // namespace tandem::app
