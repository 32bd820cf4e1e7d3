// rl/env/mujoco/tasks/float_sums.h: sums of float32 actions as NumPy makes them, since rewards of Gymnasium's tasks
// hold some: an action is float32 there, and so is a number that is made of it and of Python's numbers alone.
//
// Threads: all; functions of values.
#pragma once
#include <array>
#include <cstddef>
#include <span>

namespace tandem::rl {

/// numpy.sum(numpy.square(x)) for at most 128 float32: eight sums side by side, and what is left over behind them.
[[nodiscard]] inline float numpy_square_sum(std::span<const float> x) {
  const auto squared = [x](std::size_t i) { return x[i] * x[i]; };
  std::size_t i = 0;
  float sum = 0;
  if (x.size() >= 8) {
    std::array<float, 8> sums{};
    for (; i < 8; ++i) sums[i] = squared(i);
    for (; i + 8 <= x.size(); i += 8) {
      for (std::size_t k = 0; k < 8; ++k) sums[k] += squared(i + k);
    }
    sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
  for (; i < x.size(); ++i) sum += squared(i);
  return sum;
}

/// weight * numpy.sum(numpy.square(action)), in float32.
[[nodiscard]] inline double control_cost(double weight, std::span<const float> action) {
  return static_cast<double>(static_cast<float>(weight) * numpy_square_sum(action));
}

}  // namespace tandem::rl
