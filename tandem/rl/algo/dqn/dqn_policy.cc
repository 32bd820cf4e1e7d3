#include "tandem/rl/algo/dqn/dqn_policy.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "tandem/base/text.h"
#include "tandem/rl/policy/acting_net.h"

namespace tandem::rl {

ReturnNetwork::ReturnNetwork(const Spec& spec, const NetworkOptions& networks, const DqnOptions& options,
                             at::Generator& generator)
    : options_(options),
      actions_(head_size(spec.action)),
      encoder_(std::make_shared<Encoder>(spec, networks.torso, generator)) {
  if (encoder_->has_torso()) register_module("torso", encoder_);
  const bool is_dueling = options.streams == DqnStreams::kDueling;
  const std::int64_t numbers = options.numbers(), inputs = encoder_->size();
  const auto add = [&](const std::string& name, std::int64_t outputs, std::shared_ptr<Mlp>& net,
                       std::shared_ptr<Mlp>& deviation) {
    net = register_module(name, make_network(networks, inputs, outputs, generator));
    if (options.exploration != DqnExploration::kNoisy) return;
    deviation = register_module(name + "_deviation", make_deviations(*net, options.first_deviation));
  };
  add(is_dueling ? "value" : "net", is_dueling ? numbers : actions_ * numbers, net_, net_deviation_);
  if (is_dueling) add("advantage", actions_ * numbers, advantage_, advantage_deviation_);
  if (options.returns == DqnReturn::kCategorical)
    support_ = register_buffer("support", at::linspace(options.least_return, options.most_return, options.atoms));
}

// Advantages count as differences from their mean, so that value and advantages are told apart (Wang et al., equation
// 9). An encoder gives float32; a network may be in float64, which formulas are compared in.
at::Tensor ReturnNetwork::forward(const Observation& observation, const ReturnNoise* noise) {
  const at::Tensor features = encoder_->encode(observation).to(net_->layers().front()->weight.scalar_type());
  const auto apply = [&](Mlp& net, const Mlp* deviation, const NetNoise ReturnNoise::*its) {
    return noise == nullptr ? net.forward(features) : forward_noisy(net, *deviation, noise->*its, features);
  };
  const at::Tensor first = apply(*net_, net_deviation_.get(), &ReturnNoise::net);
  if (!advantage_) return first.view({first.size(0), actions_, -1});
  const at::Tensor advantage =
      apply(*advantage_, advantage_deviation_.get(), &ReturnNoise::advantage).view({first.size(0), actions_, -1});
  return first.unsqueeze(1) + advantage - advantage.mean(1, /*keepdim=*/true);
}

ReturnNoise ReturnNetwork::draw_noise(Philox& random) const {
  ReturnNoise noise{.net = rl::draw_noise(*net_, random), .advantage = {}};
  if (advantage_) noise.advantage = rl::draw_noise(*advantage_, random);
  return noise;
}

// The mean of the one number, of the quantiles, or of the values by their probabilities.
at::Tensor ReturnNetwork::mean(const at::Tensor& returns) const {
  if (options_.returns == DqnReturn::kCategorical) return (returns.softmax(2) * support_).sum(2);
  return returns.mean(2);
}

// forward() and mean() once more, as text.
FlatFeatures::Script ReturnNetwork::script(const std::string& name) const {
  FlatFeatures::Script all = encoder_->script(name + ".torso");
  const auto apply = [&](const Mlp& mlp, const char* its, const char* variable) {
    all.statements += concat("    ", variable, " = features\n") +
                      script_of(mlp, concat(name, ".", its), variable, mlp.layers().size());
  };
  apply(*net_, advantage_ ? "value" : "net", "r");
  if (advantage_) {
    apply(*advantage_, "advantage", "a");
    all.statements += concat("    a = a.view([-1, ", actions_, ", ", options_.numbers(), "])\n",
                             "    r = r.unsqueeze(1) + a - a.mean(1, True)\n");
  } else {
    all.statements += concat("    r = r.view([-1, ", actions_, ", ", options_.numbers(), "])\n");
  }
  all.statements += options_.returns == DqnReturn::kCategorical
                        ? concat("    q = (torch.softmax(r, 2) * self.", name, ".support).sum(2)\n")
                        : std::string("    q = r.mean(2)\n");
  return all;
}

// Noisy layers have their means.
ActingNet ReturnNetwork::acting_net() const {
  ActingNet net(*encoder_);
  std::size_t returns = net.add(*net_, 0);
  if (advantage_) {
    const std::size_t advantage = net.add(*advantage_, 0);
    returns = net.add({.kind = ActingStep::Kind::kDuel, .in = returns, .also = advantage, .count = actions_},
                      net.size(advantage));
  }
  if (options_.returns == DqnReturn::kCategorical) {
    (void)net.add({.kind = ActingStep::Kind::kExpect, .in = returns, .support = support_, .count = actions_}, actions_);
  } else if (options_.returns == DqnReturn::kQuantiles) {
    (void)net.add({.kind = ActingStep::Kind::kAverage, .in = returns, .count = actions_}, actions_);
  }
  return net;
}

DqnPolicy::DqnPolicy(const Spec& spec, const NetworkOptions& networks, const DqnOptions& options,
                     at::Generator generator)
    : ActorCritic(spec, ActionFamily::kCategorical),
      network_(register_module("q", std::make_shared<ReturnNetwork>(spec, networks, options, generator))) {}

PolicyOutput DqnPolicy::forward(const Observation& observation) {
  const at::Tensor q = network_->mean(network_->forward(observation));
  return {.action_parameters = {q}, .value = q.amax(1)};
}

PolicyScript DqnPolicy::script() const {
  FlatFeatures::Script network = network_->script("q");
  return {.source = "def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:\n" +
                    network.statements + "    return ([q], q.amax(1))\n",
          .constants = std::move(network.constants)};
}

ActingNet DqnPolicy::acting_net() const { return network_->acting_net(); }

}  // namespace tandem::rl
