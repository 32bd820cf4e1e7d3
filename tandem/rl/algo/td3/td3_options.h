// rl/algo/td3/td3_options.h: the numbers of TD3, of which DDPG is a case.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <optional>

#include "tandem/rl/algo/off_policy/critic_options.h"

namespace tandem::rl {

/// Fujimoto, van Hoof, Meger, "Addressing Function Approximation Error in Actor-Critic Methods" (2018). Numbers of
/// noise are in units of the actions' bounds. DDPG (Lillicrap et al. 2015) is one critic, policy_every 1 and
/// target_noise 0.
struct Td3Options : CriticOptions {
  double learning_rate = 3e-4;
  // The critics' own; nothing: learning_rate.
  std::optional<double> critic_learning_rate = {};
  // Turns of the critics for one of the actor; the target networks go along with the actor.
  int policy_every = 2;
  // The deviation of the noise on actions that explore.
  double exploration_noise = 0.1;
  // The part of a step's noise that stays in the next step's: ActorOptions::noise_correlation.
  double noise_correlation = 0;
  // The deviation of the noise on the targets' actions, and the most that it counts.
  double target_noise = 0.2, target_noise_clip = 0.5;
};

}  // namespace tandem::rl
