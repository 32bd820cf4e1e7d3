// rl/algo/dqn/dqn_policy.h: the networks of DQN and the policy that acts by them.
//
// As an ActorCritic the logits of its actions are their values, so that the most probable action is the best one, and
// the value of a state is that of its best action. Draws from these logits are not what DQN explores with (dqn.h).
//
// Threads: as ActorCritic.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <memory>

#include "tandem/rl/algo/dqn/dqn_options.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// It tells what is known of the return of each action. Parameters: "torso..." for images, then "net.0.weight", ..., or
/// with two streams "value.0.weight", ... and "advantage.0.weight", ...
class ReturnNetwork final : public torch::nn::Module {
 public:
  ReturnNetwork(const Spec& spec, const NetworkOptions& networks, const DqnOptions& options, at::Generator& generator);

  /// [B, actions, numbers]: the mean of the return; or logits of the probabilities of its values; or its quantiles.
  [[nodiscard]] at::Tensor forward(const Observation& observation);
  /// The mean of the return, [B, actions], from forward()'s result.
  [[nodiscard]] at::Tensor mean(const at::Tensor& returns) const;
  [[nodiscard]] const Encoder& encoder() const { return *encoder_; }
  /// The network of one stream, or of the state's value.
  [[nodiscard]] const Mlp& net() const { return *net_; }
  /// The network of the advantages, [actions * numbers]; null with one stream.
  [[nodiscard]] const Mlp* advantage() const { return advantage_.get(); }
  /// The values that a categorical distribution is over, [atoms].
  [[nodiscard]] const at::Tensor& support() const { return support_; }

  /// TorchScript statements that compute `q` [B, actions] from `observation`; self calls this module `name`, and the
  /// support is among the constants.
  [[nodiscard]] FlatFeatures::Script script(const std::string& name) const;

 private:
  const DqnOptions options_;
  const std::int64_t actions_;
  std::shared_ptr<Encoder> encoder_;
  // One stream has the first alone; of two they are the value and the advantages.
  std::shared_ptr<Mlp> net_, advantage_;
  at::Tensor support_;  // a buffer; of a categorical distribution
};

/// Parameters: "q.net.0.weight", ...
class DqnPolicy final : public ActorCritic {
 public:
  /// Throws ConfigError when the actions are no Discrete.
  DqnPolicy(const Spec& spec, const NetworkOptions& networks, const DqnOptions& options, at::Generator generator);

  PolicyOutput forward(const Observation& observation) override;
  [[nodiscard]] PolicyScript script() const override;
  [[nodiscard]] ReturnNetwork& network() { return *network_; }

 private:
  std::shared_ptr<ReturnNetwork> network_;
};

}  // namespace tandem::rl
