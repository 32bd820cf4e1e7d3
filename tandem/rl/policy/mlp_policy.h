// rl/policy/mlp_policy.h: multi-layer perceptrons, and the actor-critic of two of them, behind a torso of convolutions
// for images.
//
// Any observation works: images go through the torso (encoder.h), other leaves are flattened, integers one-hot
// (observation.h). forward() is the definition; on the CPU, kernels/mlp_inference.h acts and kernels/mlp_gradient.h
// learns with the same numbers to rounding, where the policy has no torso.
//
// Threads: as ActorCritic.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/observation.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

enum class Activation { kTanh, kRelu, kSilu, kGelu, kElu };

/// "tanh", "relu", "silu", "gelu", "elu" (kGelu is the exact one, with the error function).
[[nodiscard]] const char* name_of(Activation activation);
/// The activation of that name. Throws ConfigError listing the names.
[[nodiscard]] Activation activation(std::string_view name);
/// The activation of each element.
[[nodiscard]] at::Tensor activate(Activation activation, const at::Tensor& x);

/// Mlp::Options::sizes from `in` features over hidden layers to `out` outputs; out = 0: without a head.
[[nodiscard]] std::vector<std::int64_t> layer_sizes(std::int64_t in, const std::vector<std::int64_t>& hidden,
                                                    std::int64_t out = 0);

/// A multi-layer perceptron: linear layers with an activation between them, registered as "0", "1", ...; with norms
/// each activated layer is followed by one, "norm_0", "norm_1", ..., before its activation.
class Mlp final : public torch::nn::Module {
 public:
  /// kLinear: the last layer is a head, without an activation. kActivated: the last layer is a hidden one.
  enum class LastLayer { kLinear, kActivated };
  /// kLayer: layer normalisation with torch's defaults (Ba, Kiros, Hinton 2016), which keeps critics stable under many
  /// updates a step (DroQ: Hiraoka et al. 2022).
  enum class Norm { kNone, kLayer };
  struct Options {
    /// Features of the input, then of each layer's output in turn; one entry: no layer.
    std::vector<std::int64_t> sizes;
    Activation activation = Activation::kTanh;
    LastLayer last = LastLayer::kLinear;
    Norm norm = Norm::kNone;
    /// The gain of the initial weights of all layers but a linear last one, and that of a linear last layer.
    double gain = 1;
    double last_gain = 1;
  };
  /// Weights from `generator` are orthogonal times their gain (Saxe, McClelland, Ganguli 2014), biases zero.
  Mlp(const Options& options, at::Generator generator);

  /// `x` [B, sizes.front()]; returns [B, sizes.back()].
  at::Tensor forward(at::Tensor x);
  /// The input of the last layer, [B, units of the last hidden layer].
  at::Tensor forward_to_last(at::Tensor x);

  /// The options that it was made with, and its layers in order, for code that computes forward() by itself.
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const std::vector<torch::nn::Linear>& layers() const { return layers_; }
  /// One for each activated layer; empty without norms.
  [[nodiscard]] const std::vector<torch::nn::LayerNorm>& norms() const { return norms_; }
  /// Whether an activation follows layer `i`.
  [[nodiscard]] bool is_activated(std::size_t i) const {
    return i + 1 < layers_.size() || options_.last == LastLayer::kActivated;
  }

 private:
  // One layer and its activation, if it has one.
  at::Tensor apply(std::size_t layer, const at::Tensor& x);

  Options options_;
  std::vector<torch::nn::Linear> layers_;
  std::vector<torch::nn::LayerNorm> norms_;
};

/// The TorchScript lines that apply the first `end` layers of `mlp`, which self knows as `name` ("actor", or
/// "critics._0" for a module within another), to the variable `x`.
[[nodiscard]] std::string script_of(const Mlp& mlp, const std::string& name, const std::string& x, std::size_t end);

/// kSeparate: actor and critic have hidden layers of their own. kShared: the same ones, with two linear heads. A torso
/// is always shared.
enum class Trunks { kSeparate, kShared };

/// From "separate" or "shared"; throws ConfigError.
[[nodiscard]] Trunks trunks(std::string_view name);

/// The layers of a policy and how they start.
struct MlpPolicyOptions {
  /// Units of each hidden layer; empty: the heads are linear in the features.
  std::vector<std::int64_t> hidden = {64, 64};
  Activation activation = Activation::kTanh;
  Trunks trunks = Trunks::kSeparate;
  /// None: the usual family of the action space.
  std::optional<ActionFamily> family = {};
  /// Initial natural logarithm of the standard deviation, for the families with a log_std; -2 suits gSDE.
  double log_std_init = 0;
  // Gains of the orthogonal initial weights (Andrychowicz et al. 2021, "What Matters for On-Policy Deep Actor-Critic").
  double hidden_gain = std::numbers::sqrt2;
  double policy_gain = 0.01;
  double value_gain = 1;
  TorsoOptions torso = {};
};

/// Throws ConfigError with all options that are out of range.
void check_options(const MlpPolicyOptions& options);

/// Parameters: "actor.0.weight", ... and "critic.0.weight", ... whose last layers are the heads; with shared trunks
/// "trunk.0.weight", ... before them; with a torso "torso.0.conv_0.weight", ... (encoder.h); "log_std" for continuous
/// actions: [size], not a function of the state (state_dependent_noise: [features, size], features being the units of
/// the actor's last hidden layer).
class MlpPolicy final : public ActorCritic {
 public:
  /// Throws ConfigError when an option is out of range or does not fit the spec.
  MlpPolicy(const Spec& spec, const MlpPolicyOptions& options, at::Generator generator);

  PolicyOutput forward(const Observation& observation) override;
  [[nodiscard]] PolicyScript script() const override;
  [[nodiscard]] ActingNet acting_net() const override;

  [[nodiscard]] const MlpPolicyOptions& options() const { return options_; }
  [[nodiscard]] bool has_torso() const { return encoder_->has_torso(); }
  /// What makes the inputs of the first layers.
  [[nodiscard]] const Encoder& encoder() const { return *encoder_; }
  /// The inputs of the first layers, where the policy has no torso.
  [[nodiscard]] const FlatFeatures& features() const { return encoder_->flat(); }
  /// Null when the trunks are separate.
  [[nodiscard]] const Mlp* trunk() const { return trunk_.get(); }
  [[nodiscard]] const Mlp& actor() const { return *actor_; }
  [[nodiscard]] const Mlp& critic() const { return *critic_; }
  /// Undefined for discrete actions.
  [[nodiscard]] const at::Tensor& log_std() const { return log_std_; }

 private:
  // Registered as "torso" where there is one, "trunk" where it is shared, "actor", "critic" and "log_std".
  MlpPolicyOptions options_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Mlp> trunk_, actor_, critic_;
  at::Tensor log_std_;
};

/// The initial log_std of a policy for Box actions whose head has `latent` inputs.
[[nodiscard]] at::Tensor first_log_std(const ActorCritic& policy, std::int64_t latent, double value);

/// Makes MlpPolicies of these options.
[[nodiscard]] PolicyFactory mlp_policy_factory(MlpPolicyOptions options);

}  // namespace tandem::rl
