// rl/replay/hindsight.h: what hindsight experience replay is told: which goals take the place of the desired one, and
// how rewards follow from goals.
//
// For environments with goals: their observations have the leaves "achieved_goal" and "desired_goal", of one type and
// shape, as Gymnasium-Robotics' have. Source: Andrychowicz et al., "Hindsight experience replay" (2017).
// Threads: plain values; the function is called on the thread of ReplayPart::sample().
#pragma once
#include <functional>

#include "tandem/rl/env/goal_rewards.h"

namespace tandem::rl {

/// The environment's rule for rewards, which depends on nothing else. A step at which the episode ended counts as
/// truncated when the function writes that it did not terminate: its last observation bootstraps. What the function
/// throws passes through sample(), and the draw is lost.
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
