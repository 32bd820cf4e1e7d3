// rl/algo/sac/discrete_sac_policy.h: the actor of SAC for one choice, with its critics and its temperature.
//
// The actor tells a logit of each choice, and each critic the value of each. As an ActorCritic it acts, is evaluated
// and is exported like any other policy; its value of a state is the least that its critics say of the most probable
// choice. What learns it (discrete_sac_loss.h) asks the parts by themselves.
//
// Threads: as ActorCritic.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Several estimates of the values of all choices: networks that share nothing, convolutions included. Parameters:
/// "0.net.0.weight", ... of the first network, "1.net.0.weight", ... of the second.
class ChoiceValues final : public torch::nn::Module {
 public:
  /// `count`: how many networks.
  ChoiceValues(const Spec& spec, const NetworkOptions& options, int count, at::Generator& generator);

  /// [count, B, choices].
  [[nodiscard]] at::Tensor forward(const Observation& observation);
  [[nodiscard]] const std::vector<std::shared_ptr<ObservationNetwork>>& networks() const { return networks_; }

 private:
  std::vector<std::shared_ptr<ObservationNetwork>> networks_;
};

/// Parameters: "log_temperature", "actor.net.0.weight", ..., "critics.0.net.0.weight", ...
class DiscreteSacPolicy final : public ActorCritic {
 public:
  /// Throws ConfigError when the actions are no Discrete. `critics`: how many; `temperature`: the first one.
  DiscreteSacPolicy(const Spec& spec, const NetworkOptions& options, int critics, double temperature,
                    at::Generator generator);

  /// Logits, and the least value of the critics.
  PolicyOutput forward(const Observation& observation) override;
  [[nodiscard]] PolicyScript script() const override;
  [[nodiscard]] ActingNet acting_net() const override;

  /// The parts, for what learns them. They are the policy's.
  [[nodiscard]] ObservationNetwork& actor() { return *actor_; }
  [[nodiscard]] ChoiceValues& critics() { return *critics_; }
  /// A scalar.
  [[nodiscard]] const at::Tensor& log_temperature() const { return log_temperature_; }

 private:
  // Registered, so that the module has their parameters.
  std::shared_ptr<ObservationNetwork> actor_;
  at::Tensor log_temperature_;
  std::shared_ptr<ChoiceValues> critics_;
};

}  // namespace tandem::rl
