// rl/replay/n_step.h: the return of n steps, and the factor of what comes after them.
//
//     G_t = r_t + gamma r_{t+1} + ... + gamma^(m-1) r_{t+m-1} + discount * V(s_{t+m})
//
// with m = n, or fewer where the episode ended before. discount is gamma^m, and 0 where the episode terminated with the
// last of these steps. A truncation ends the sum too, but the task went on: its last observation is bootstrapped.
// Source: Sutton and Barto, "Reinforcement learning: an introduction" (2018), section 7.1; Pardo et al., "Time limits
// in reinforcement learning" (2018).
//
// Threads: all.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace tandem::rl {

/// How a step ended the episode; 0: it did not. Both can be set, and then it terminated.
inline constexpr std::uint8_t kStepTerminated = 1, kStepTruncated = 2;

/// A step of an environment tells both as 0 or 1.
[[nodiscard]] constexpr std::uint8_t step_end(std::uint8_t terminated, std::uint8_t truncated) {
  return static_cast<std::uint8_t>((terminated != 0 ? kStepTerminated : 0) | (truncated != 0 ? kStepTruncated : 0));
}

/// Each reward is multiplied, and cut at +-largest, before it is summed.
struct ClippedScale {
  double factor = 1, largest = std::numeric_limits<double>::infinity();
  [[nodiscard]] double of(double reward) const { return std::clamp(reward * factor, -largest, largest); }
};

struct NStepReturn {
  double reward = 0;
  double discount = 1;
  std::int64_t steps = 0;  // m
};

/// Sums from the first step to the last one given, or to the first that ended the episode. `ends`: of each step, as
/// above.
[[nodiscard]] inline NStepReturn n_step_return(std::span<const double> rewards, std::span<const std::uint8_t> ends,
                                               double gamma) {
  NStepReturn sum;
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    sum.reward += sum.discount * rewards[k];
    sum.discount *= gamma;
    ++sum.steps;
    if ((ends[k] & kStepTerminated) != 0) sum.discount = 0;
    if (ends[k] != 0) break;
  }
  return sum;
}

}  // namespace tandem::rl
