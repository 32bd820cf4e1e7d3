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
#include "tandem/rl/algo/dqn/noisy_layers.h"
#include "tandem/rl/algo/off_policy/networks.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// The noise of one use of a ReturnNetwork: of its one stream or of the value, and of the advantages.
struct ReturnNoise {
  NetNoise net, advantage;
};

/// It tells what is known of the return of each action. Parameters: "torso..." for images, then "net.0.weight", ..., or
/// with two streams "value.0.weight", ... and "advantage.0.weight", ... With noisy layers these are the means, and
/// "net_deviation.0.weight" and so on lie behind each of them.
class ReturnNetwork final : public torch::nn::Module {
 public:
  ReturnNetwork(const Spec& spec, const NetworkOptions& networks, const DqnOptions& options, at::Generator& generator);

  /// [B, actions, numbers]: the mean of the return; or logits of the probabilities of its values; or its quantiles.
  /// `noise`: of noisy layers; null: their means alone, as of layers that are not noisy.
  [[nodiscard]] at::Tensor forward(const Observation& observation, const ReturnNoise* noise = nullptr);
  /// Takes what the layers need of a stream. Of networks with noisy layers.
  [[nodiscard]] ReturnNoise draw_noise(Philox& random) const;
  /// The mean of the return, [B, actions], from forward()'s result.
  [[nodiscard]] at::Tensor mean(const at::Tensor& returns) const;
  [[nodiscard]] const Encoder& encoder() const { return *encoder_; }
  /// The network of one stream, or of the state's value.
  [[nodiscard]] const Mlp& net() const { return *net_; }
  /// The network of the advantages, [actions * numbers]; null with one stream.
  [[nodiscard]] const Mlp* advantage() const { return advantage_.get(); }
  /// The deviations of the two; null where layers are not noisy.
  [[nodiscard]] const Mlp* net_deviation() const { return net_deviation_.get(); }
  [[nodiscard]] const Mlp* advantage_deviation() const { return advantage_deviation_.get(); }
  [[nodiscard]] std::int64_t actions() const { return actions_; }
  /// The values that a categorical distribution is over, [atoms].
  [[nodiscard]] const at::Tensor& support() const { return support_; }

  /// TorchScript statements that compute `q` [B, actions] from `observation`; self calls this module `name`, and the
  /// support is among the constants.
  [[nodiscard]] FlatFeatures::Script script(const std::string& name) const;
  /// The way from an observation to the mean of the return of each action.
  [[nodiscard]] ActingNet acting_net() const;

 private:
  const DqnOptions options_;
  const std::int64_t actions_;
  std::shared_ptr<Encoder> encoder_;
  // One stream has the first alone; of two they are the value and the advantages.
  std::shared_ptr<Mlp> net_, advantage_, net_deviation_, advantage_deviation_;
  at::Tensor support_;  // a buffer; of a categorical distribution
};

/// Parameters: "q.net.0.weight", ...
class DqnPolicy final : public ActorCritic {
 public:
  /// Throws ConfigError when the actions are no Discrete.
  DqnPolicy(const Spec& spec, const NetworkOptions& networks, const DqnOptions& options, at::Generator generator);

  PolicyOutput forward(const Observation& observation) override;
  [[nodiscard]] PolicyScript script() const override;
  [[nodiscard]] ActingNet acting_net() const override;
  [[nodiscard]] ReturnNetwork& network() { return *network_; }

 private:
  std::shared_ptr<ReturnNetwork> network_;
};

}  // namespace tandem::rl
