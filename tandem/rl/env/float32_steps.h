// rl/env/float32_steps.h: what float32 tells apart between two numbers.
//
// Threads: free functions on values.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::rl {

/// The distance of neighbours in float32 where it is largest between two finite numbers; infinite beyond float32.
[[nodiscard]] inline double float32_step(double low, double high) {
  const auto largest = static_cast<float>(std::max(std::abs(low), std::abs(high)));
  if (std::isinf(largest)) return std::numeric_limits<double>::infinity();
  return double{std::nextafter(largest, std::numeric_limits<float>::infinity())} - double{largest};
}

/// Whether float32 has fewer than a thousand steps between two numbers, so that an observation between them is better
/// kept in float64. Not where both are equal, or one is infinite, as a bound may be.
[[nodiscard]] inline bool float32_loses(double low, double high) {
  constexpr double kFewestSteps = 1000;
  return std::isfinite(low) && std::isfinite(high) && high > low &&
         !(float32_step(low, high) * kFewestSteps <= high - low);
}

}  // namespace tandem::rl
