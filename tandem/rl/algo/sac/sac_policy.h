// rl/algo/sac/sac_policy.h: the actor of SAC with its critics and its temperature.
//
// As an ActorCritic it acts, is evaluated and is exported like any other policy; its value of a state is the least that
// its critics say of the most probable action. What learns it (sac_loss.h) asks the parts by themselves.
//
// Threads: as ActorCritic.
#pragma once
#include <ATen/core/Generator.h>

#include <memory>

#include "tandem/model/distribution/normal.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Bounds of the logarithm of the standard deviation, as in the authors' code.
inline constexpr double kLeastLogStd = -20, kMostLogStd = 2;

/// Parameters: "log_temperature", "actor.net.0.weight", ..., "critics.0.0.weight", ...
class SacPolicy final : public ActorCritic {
 public:
  /// Throws ConfigError when the actions are no Box with bounds. `critics`: how many; `temperature`: the first one.
  SacPolicy(const Spec& spec, const NetworkOptions& options, int critics, double temperature, at::Generator generator);

  /// Mean and log_std before tanh, and the least value of the critics.
  PolicyOutput forward(const Observation& observation) override;
  [[nodiscard]] PolicyScript script() const override;
  [[nodiscard]] ActingNet acting_net() const override;

  /// The distribution over actions, before bounds.
  [[nodiscard]] model::SquashedNormal actions(const Observation& observation);
  [[nodiscard]] ObservationNetwork& actor() { return *actor_; }
  [[nodiscard]] ActionValues& critics() { return *critics_; }
  /// A scalar.
  [[nodiscard]] const at::Tensor& log_temperature() const { return log_temperature_; }

 private:
  std::shared_ptr<ObservationNetwork> actor_;
  at::Tensor log_temperature_;
  std::shared_ptr<ActionValues> critics_;
};

}  // namespace tandem::rl
