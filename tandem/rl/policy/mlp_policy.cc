#include "tandem/rl/policy/mlp_policy.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <cmath>

#include "tandem/model/init.h"
#include "tandem/rl/policy/acting_net.h"
#include "tandem/rl/policy/names.h"

namespace tandem::rl {
namespace {

// More units are a mistake in the configuration, and would take gigabytes.
constexpr std::int64_t kMostUnits = 65536;
constexpr Names<5> kActivations{"tanh", "relu", "silu", "gelu", "elu"};
constexpr Names<2> kTrunks{"separate", "shared"};

}  // namespace

const char* name_of(Activation activation) { return name_in(kActivations, activation); }

Activation activation(std::string_view name) { return value_in<Activation>(kActivations, name, "activation"); }

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kTanh:
      return at::tanh(x);
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kElu:
      return at::elu(x);
  }
  return x;
}

std::vector<std::int64_t> layer_sizes(std::int64_t in, const std::vector<std::int64_t>& hidden, std::int64_t out) {
  std::vector<std::int64_t> all{in};
  all.insert(all.end(), hidden.begin(), hidden.end());
  if (out > 0) all.push_back(out);
  return all;
}

// Layers draw their weights in order, so the numbers of a layer do not depend on those that follow.
Mlp::Mlp(const Options& options, at::Generator generator) : options_(options) {
  for (std::size_t i = 0; i + 1 < options.sizes.size(); ++i) {
    layers_.emplace_back(register_module(std::to_string(i), torch::nn::Linear(options.sizes[i], options.sizes[i + 1])));
    const bool is_last = i + 2 == options.sizes.size();
    const bool is_head = is_last && options.last == LastLayer::kLinear;
    model::init_orthogonal(layers_[i]->weight, is_head ? options.last_gain : options.gain, generator);
    torch::nn::init::zeros_(layers_[i]->bias);
    if (options.norm == Norm::kNone || is_head) continue;
    const torch::nn::LayerNormOptions each({options.sizes[i + 1]});
    norms_.emplace_back(register_module(concat("norm_", i), torch::nn::LayerNorm(each)));
  }
}

at::Tensor Mlp::apply(std::size_t layer, const at::Tensor& x) {
  at::Tensor y = at::linear(x, layers_[layer]->weight, layers_[layer]->bias);
  if (!is_activated(layer)) return y;
  if (!norms_.empty()) y = norms_[layer]->forward(y);
  return activate(options_.activation, y);
}

at::Tensor Mlp::forward(at::Tensor x) {
  for (std::size_t i = 0; i < layers_.size(); ++i) x = apply(i, x);
  return x;
}

at::Tensor Mlp::forward_to_last(at::Tensor x) {
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) x = apply(i, x);
  return x;
}

std::string script_of(const Mlp& mlp, const std::string& name, const std::string& x, std::size_t end) {
  std::string text;
  for (std::size_t i = 0; i < end; ++i) {
    const std::string layer = concat("self.", name, "._", i);
    std::string linear = concat("torch.linear(", x, ", ", layer, ".weight, ", layer, ".bias)");
    if (mlp.is_activated(i) && !mlp.norms().empty()) {
      const std::string norm = concat("self.", name, ".norm_", i);
      linear = concat("torch.layer_norm(", linear, ", [", mlp.options().sizes[i + 1], "], ", norm, ".weight, ", norm,
                      ".bias)");
    }
    const std::string activated = concat("torch.", name_of(mlp.options().activation), "(", linear, ")");
    text += concat("    ", x, " = ", mlp.is_activated(i) ? activated : linear, "\n");
  }
  return text;
}

void check_options(const MlpPolicyOptions& options) {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < options.hidden.size(); ++i) {
    if (options.hidden[i] < 1 || options.hidden[i] > kMostUnits) {
      faults.push_back(concat("policy: hidden[", i, "] = ", options.hidden[i], " must be 1 .. ", kMostUnits));
    }
  }
  const auto require = [&](const char* name, double value, bool good, const char* rule) {
    if (!good || !std::isfinite(value)) faults.push_back(concat("policy: ", name, " = ", value, " must be ", rule));
  };
  require("log_std_init", options.log_std_init, std::abs(options.log_std_init) <= 20, "within -20 .. 20");
  require("hidden_gain", options.hidden_gain, options.hidden_gain > 0, "> 0");
  require("policy_gain", options.policy_gain, options.policy_gain >= 0, ">= 0");
  require("value_gain", options.value_gain, options.value_gain >= 0, ">= 0");
  if (!faults.empty()) throw ConfigError(faults);
}

Trunks trunks(std::string_view name) { return value_in<Trunks>(kTrunks, name, "kind of trunks"); }

// The plan: encoder, then the shared trunk if there is one, then actor and critic with their heads, then log_std. This
// is also the order in which weights are drawn and parameters are registered, which checkpoints and hashes depend on.
MlpPolicy::MlpPolicy(const Spec& spec, const MlpPolicyOptions& options, at::Generator generator)
    : ActorCritic(spec, options.family.value_or(usual_family(spec.action))),
      options_(options),
      encoder_(std::make_shared<Encoder>(spec, options.torso, generator)) {
  check_options(options);
  if (has_torso()) register_module("torso", encoder_);
  std::int64_t inputs = encoder_->size();
  std::vector<std::int64_t> own_hidden = options.hidden;
  if (options.trunks == Trunks::kShared) {
    trunk_ = register_module("trunk", std::make_shared<Mlp>(Mlp::Options{.sizes = layer_sizes(inputs, options.hidden),
                                                                         .activation = options.activation,
                                                                         .last = Mlp::LastLayer::kActivated,
                                                                         .gain = options.hidden_gain},
                                                            generator));
    own_hidden.clear();
    inputs = trunk_->options().sizes.back();
  }
  const auto make = [&](std::int64_t out, double last_gain) {
    const Mlp::Options mlp{.sizes = layer_sizes(inputs, own_hidden, out),
                           .activation = options.activation,
                           .gain = options.hidden_gain,
                           .last_gain = last_gain};
    return std::make_shared<Mlp>(mlp, generator);
  };
  actor_ = register_module("actor", make(head_size(spec.action), options.policy_gain));
  critic_ = register_module("critic", make(1, options.value_gain));
  if (std::holds_alternative<Box>(spec.action)) {
    const std::int64_t latent = actor_->layers().back()->options.in_features();
    log_std_ = register_parameter("log_std", first_log_std(*this, latent, options.log_std_init));
  }
}

at::Tensor first_log_std(const ActorCritic& policy, std::int64_t latent, double value) {
  std::vector<std::int64_t> shape{action_elements(policy.spec().action)};
  if (policy.family() == ActionFamily::kStateDependentNoise) shape.insert(shape.begin(), latent);
  return at::full(shape, value, at::kFloat);
}

PolicyOutput MlpPolicy::forward(const Observation& observation) {
  at::Tensor x = encoder_->encode(observation);
  if (trunk_) x = trunk_->forward(x);
  PolicyOutput output;
  if (family() == ActionFamily::kStateDependentNoise) {
    const at::Tensor latent = actor_->forward_to_last(x);
    const torch::nn::Linear& head = actor_->layers().back();
    // Detached, as in stable-baselines3: the noise follows the features and does not shape them.
    output.action_parameters = {at::linear(latent, head->weight, head->bias), latent.detach(), log_std_};
  } else {
    output.action_parameters = {actor_->forward(x)};
    if (log_std_.defined()) output.action_parameters.push_back(log_std_);
  }
  output.value = critic_->forward(x).squeeze(-1);
  return output;
}

// forward() once more, as text: each statement below stands for one of forward()'s.
PolicyScript MlpPolicy::script() const {
  FlatFeatures::Script features = encoder_->script("torso");
  std::string text =
      "def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:\n" + features.statements;
  if (trunk_) text += script_of(*trunk_, "trunk", "features", trunk_->layers().size());
  const std::size_t last = actor_->layers().size() - 1;
  const std::string head = concat("self.actor._", last);
  text += "    x = features\n" + script_of(*actor_, "actor", "x", last);
  text += "    v = features\n" + script_of(*critic_, "critic", "v", critic_->layers().size());
  text += concat("    parameters = [torch.linear(x, ", head, ".weight, ", head, ".bias)]\n");
  if (family() == ActionFamily::kStateDependentNoise) text += "    parameters.append(x)\n";
  if (log_std_.defined()) text += "    parameters.append(self.log_std)\n";
  text += "    return (parameters, v.squeeze(-1))\n";
  return {.source = std::move(text), .constants = std::move(features.constants)};
}

ActingNet MlpPolicy::acting_net() const {
  ActingNet net(*encoder_);
  (void)net.add(*actor_, trunk_ ? net.add(*trunk_, 0) : 0);
  return net;
}

PolicyFactory mlp_policy_factory(MlpPolicyOptions options) {
  return [options = std::move(options)](const Spec& spec, at::Generator generator) {
    return std::make_shared<MlpPolicy>(spec, options, std::move(generator));
  };
}

}  // namespace tandem::rl
