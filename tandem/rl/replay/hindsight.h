// rl/replay/hindsight.h: what hindsight experience replay is told: which goals take the place of the desired one, and
// how rewards follow from goals.
//
// For environments with goals: their observations have the leaves "achieved_goal" and "desired_goal", of one type and
// shape, as Gymnasium-Robotics' have. Source: Andrychowicz et al., "Hindsight experience replay" (2017).
// Threads: plain values; the function is called on the thread of ReplayPart::sample().
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tandem::rl {

/// Steps whose desired goal was replaced, to be rewarded anew. `achieved` and `desired` are [rows, bytes of the leaf]
/// as stored: the goal that the step reached, and the one that now counts.
struct GoalRows {
  std::int64_t rows = 0;
  const std::byte* achieved = nullptr;
  const std::byte* desired = nullptr;
  /// [rows]: to be written.
  double* reward = nullptr;
  /// [rows], 0 or 1: holds what the environment said for its own goal. The function changes it where the end of the
  /// task depends on the goal. A step at which the episode ended all the same counts as truncated when the function
  /// writes 0: its last observation bootstraps.
  std::uint8_t* terminated = nullptr;
};

/// The environment's rule for rewards. It must not depend on anything else, and must not throw.
using GoalReward = std::function<void(const GoalRows&)>;

/// Whose achieved goal becomes the desired one. kFuture: that of a step of the same episode drawn from this one on;
/// kFinal: that of the episode's last step; kEpisode: that of any step of the episode that is still held. An episode
/// that has not ended yet ends, for these purposes, with its newest step.
enum class GoalStrategy { kFuture, kFinal, kEpisode };

struct HindsightOptions {
  GoalStrategy strategy = GoalStrategy::kFuture;
  /// The paper's k, 0 or more: each drawn row gets another goal with probability k / (k + 1), independent of the
  /// others.
  int goals = 4;
  GoalReward reward = {};
};

}  // namespace tandem::rl
