// rl/algo/off_policy/networks.h: the networks of algorithms that learn action values from a replay, and their targets.
//
// First weights are torch's default for linear layers (uniform within +-1/sqrt(fan in)), as in the published settings
// of SAC, TD3 and DQN; MlpPolicy's are orthogonal.
//
// Threads: as ActorCritic: a replica's thread alone. Ownership: modules are shared with the replica that trains them.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/model/flat_parameters.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/off_policy/critic_options.h"
#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// The layers of one network.
struct NetworkOptions {
  std::vector<std::int64_t> hidden = {256, 256};
  Activation activation = Activation::kRelu;
  TorsoOptions torso = {};
  // Networks that value actions have them; what chooses actions has none.
  CriticNorm critic_norm = CriticNorm::kNone;
  double critic_dropout = 0;
};

/// A perceptron from `inputs` features to `outputs` numbers, with torch's default first weights.
[[nodiscard]] std::shared_ptr<Mlp> make_network(const NetworkOptions& options, std::int64_t inputs,
                                                std::int64_t outputs, at::Generator& generator,
                                                Mlp::Norm norm = Mlp::Norm::kNone);

/// Mlp::forward() as losses see it: units of hidden layers are left out with probability `dropout`, before a norm, and
/// the others grow to make up for it. Masks come from model::current_generator(), the shard's.
[[nodiscard]] at::Tensor forward_dropped(const Mlp& network, at::Tensor x, double dropout);
/// It is the same with its parameters as constants: gradients reach `x` and go no further.
[[nodiscard]] at::Tensor forward_frozen(const Mlp& network, at::Tensor x, double dropout = 0);

/// A perceptron that reads observations. Parameters: "torso..." for images, then "net.0.weight", ...
class ObservationNetwork final : public torch::nn::Module {
 public:
  ObservationNetwork(const Spec& spec, const NetworkOptions& options, std::int64_t outputs, at::Generator& generator);

  /// [B, outputs], in the dtype of the parameters.
  [[nodiscard]] at::Tensor forward(const Observation& observation);
  [[nodiscard]] const Encoder& encoder() const { return *encoder_; }
  [[nodiscard]] const Mlp& net() const { return *net_; }
  /// forward() as TorchScript statements that compute `features` and, from them, the variable `result`; self calls this
  /// module `name`.
  [[nodiscard]] FlatFeatures::Script script(const std::string& name, const std::string& result) const;

 private:
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Mlp> net_;
};

/// Several estimates of Q(s, a) for actions of a Box: networks of one shape that share nothing but what they see.
/// Parameters: "torso..." for images, then "0.0.weight", ... of the first network, "1.0.weight", ... of the second.
class ActionValues final : public torch::nn::Module {
 public:
  /// `count`: how many networks.
  ActionValues(const Spec& spec, const NetworkOptions& options, int count, at::Generator& generator);

  /// The features that the networks read of an observation, [B, features], in the dtype of the parameters.
  /// Differentiable with respect to a torso's parameters.
  [[nodiscard]] at::Tensor encode(const Observation& observation);
  /// `features`: of encode(); `action`: [B, size], in units of the bounds. Returns [count, B].
  [[nodiscard]] at::Tensor forward(const at::Tensor& features, const at::Tensor& action);
  /// As losses see them, with dropout: of the networks at the places `chosen`, [chosen, B], and of all.
  [[nodiscard]] at::Tensor forward_dropped(const at::Tensor& features, const at::Tensor& action,
                                           std::span<const std::size_t> chosen) const;
  [[nodiscard]] at::Tensor forward_dropped(const at::Tensor& features, const at::Tensor& action) const;
  /// It is the same for all, with the networks' parameters as constants.
  [[nodiscard]] at::Tensor forward_frozen(const at::Tensor& features, const at::Tensor& action) const;

  /// encode() as TorchScript statements that compute `features`; `torso` is what self calls the convolutions.
  [[nodiscard]] std::string script(const std::string& torso) const { return encoder_->script(torso).statements; }
  /// Statements that compute `value` [B, 1], the least that the networks say of the action in the variable `action`,
  /// from `features`; self calls this module `name`.
  [[nodiscard]] std::string least_script(const std::string& name, const std::string& action) const;

  [[nodiscard]] const std::vector<std::shared_ptr<Mlp>>& networks() const { return networks_; }
  /// The networks as kernels take them.
  [[nodiscard]] std::vector<const Mlp*> nets() const;
  /// Whether images go through convolutions first.
  [[nodiscard]] bool has_torso() const { return encoder_->has_torso(); }
  /// The inputs of the first layers, in front of the action.
  [[nodiscard]] std::int64_t features() const { return encoder_->size(); }

 private:
  std::shared_ptr<Encoder> encoder_;
  std::vector<std::shared_ptr<Mlp>> networks_;
  const double dropout_;
};

/// A module for TargetNetwork, which gives it its values: one of the shape that `arguments` say, on `device`.
template <typename Module, typename... Arguments>
[[nodiscard]] std::shared_ptr<Module> module_for_target(const c10::Device& device, const Arguments&... arguments) {
  at::Generator unused = at::detail::createCPUGenerator(0);
  auto module = std::make_shared<Module>(arguments..., unused);
  module->to(device);
  return module;
}

/// A network's slow copy, which bootstrapped targets are computed with.
///
/// The copies are made of the same parameters by the same arithmetic on every replica, so nothing is exchanged. They
/// lie in one piece of memory, like the parameters that they follow: one call moves them all.
class TargetNetwork {
 public:
  /// `copy` becomes the slow copy of those parameters of `source` whose names begin with `prefix` and a dot; it is a
  /// module of the same shape, whose parameters from now on are views of this object's memory and want no gradients.
  /// Throws InvariantError when the names or shapes differ, or the parameters do not lie side by side.
  TargetNetwork(const model::FlatParameters& source, const std::string& prefix,
                const std::shared_ptr<torch::nn::Module>& copy);

  /// Polyak averaging: copy += share * (source - copy). 1 makes them equal.
  void follow(double share);

  /// The copy's parameters by their names in the source, alive and in place: for hashes and checkpoints.
  [[nodiscard]] model::NamedTensors state() const;
  /// Takes values that state() gave. Throws CheckpointError naming what is missing or of another shape.
  void load(const model::NamedTensors& state);

 private:
  // The parameters that are followed, one piece of the replica's flat memory, and the copy of them.
  at::Tensor source_, values_;
  model::NamedTensors named_;
};

}  // namespace tandem::rl
