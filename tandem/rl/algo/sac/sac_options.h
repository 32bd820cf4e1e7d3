// rl/algo/sac/sac_options.h: the numbers of SAC.
//
// All in this header, since the program's configuration, which is without LibTorch, asks as well.
#pragma once
#include <optional>

#include "tandem/rl/algo/off_policy/critic_options.h"

namespace tandem::rl {

/// An actor's action is worth the least that the critics say (Haarnoja et al. 2018), or their mean (REDQ and
/// DroQ, whose many critics would be too timid together).
enum class ActorValue { kLeast, kMean };

/// Haarnoja et al., "Soft Actor-Critic Algorithms and Applications" (2018), with two critics and a learned temperature.
struct SacOptions : CriticOptions {
  double learning_rate = 3e-4;
  // The critics' own; nothing: learning_rate.
  std::optional<double> critic_learning_rate = {};
  ActorValue actor_value = ActorValue::kLeast;
  // The temperature that the entropy is weighed with at first, from which it is learned; or the one of the whole run.
  std::optional<double> temperature = 1;
  std::optional<double> fixed_temperature = {};
  // The entropy that the temperature is learned for; nothing: minus the number of the action's components.
  std::optional<double> target_entropy = {};
  // Optimizer steps of the critics for one of the actor and the temperature.
  int policy_every = 1;
  // The part of an exploring action's draw that stays in that of the next step: ActorOptions::noise_correlation.
  double noise_correlation = 0;

  [[nodiscard]] double first_temperature() const { return temperature.value_or(1); }
};

}  // namespace tandem::rl
