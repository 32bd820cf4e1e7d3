// rl/algo/td3/td3_policy.h: the actor of TD3 with its critics.
//
// As an ActorCritic its actions are normal around the actor's, with the deviation that explores; the most probable
// action is the actor's own. Its value of a state is the least that its critics say of that action.
//
// Threads: as ActorCritic.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/ops/tanh.h>
#include <torch/nn/module.h>

#include <memory>

#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Parameters: "actor.net.0.weight", ..., "critics.0.0.weight", ...; the buffer "log_std".
class Td3Policy final : public ActorCritic {
 public:
  /// Throws ConfigError when the actions are no Box. `critics`: how many; `noise`: the deviation that explores, above
  /// 0.
  Td3Policy(const Spec& spec, const NetworkOptions& options, int critics, double noise, at::Generator generator);

  /// The action and the logarithm of the deviation around it, and the least value of the critics.
  PolicyOutput forward(const Observation& observation) override;
  [[nodiscard]] PolicyScript script() const override;
  [[nodiscard]] ActingNet acting_net() const override;

  /// The actor's action, [B, size] within -1 .. 1.
  [[nodiscard]] at::Tensor action(const Observation& observation) { return at::tanh(actor_->forward(observation)); }
  [[nodiscard]] ObservationNetwork& actor() { return *actor_; }
  [[nodiscard]] ActionValues& critics() { return *critics_; }

 private:
  std::shared_ptr<ObservationNetwork> actor_;
  std::shared_ptr<ActionValues> critics_;
  at::Tensor log_std_;
};

}  // namespace tandem::rl
