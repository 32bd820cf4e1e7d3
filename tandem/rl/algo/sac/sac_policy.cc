#include "tandem/rl/algo/sac/sac_policy.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>

#include "tandem/base/text.h"
#include "tandem/rl/policy/acting_net.h"

namespace tandem::rl {

SacPolicy::SacPolicy(const Spec& spec, const NetworkOptions& options, int critics, double temperature,
                     at::Generator generator)
    : ActorCritic(spec, ActionFamily::kSquashedNormal) {
  actor_ = register_module(
      "actor", std::make_shared<ObservationNetwork>(spec, options, 2 * action_elements(spec.action), generator));
  log_temperature_ = register_parameter("log_temperature", at::full({}, std::log(temperature), at::kFloat));
  critics_ = register_module("critics", std::make_shared<ActionValues>(spec, options, critics, generator));
}

model::SquashedNormal SacPolicy::actions(const Observation& observation) {
  const at::Tensor head = actor_->forward(observation);
  const std::int64_t size = head.size(1) / 2;
  return {head.narrow(1, 0, size), head.narrow(1, size, size).clamp(kLeastLogStd, kMostLogStd)};
}

PolicyOutput SacPolicy::forward(const Observation& observation) {
  const model::SquashedNormal actions = this->actions(observation);
  const at::Tensor values = critics_->forward(critics_->encode(observation), actions.mode());
  return {.action_parameters = actions.parameters(), .value = values.amin(0)};
}

// forward() once more, as text. The critics' features are those of the actor where there is no torso.
PolicyScript SacPolicy::script() const {
  FlatFeatures::Script actor = actor_->script("actor", "x");
  const std::int64_t size = action_elements(spec().action);
  std::string text = "def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:\n" + actor.statements;
  text += concat("    mean = x[:, :", size, "]\n    log_std = torch.clamp(x[:, ", size, ":], ", kLeastLogStd, ", ",
                 kMostLogStd, ")\n");
  if (critics_->has_torso()) text += critics_->script("critics.torso");
  text += critics_->least_script("critics", "torch.tanh(mean)");
  text += "    return ([mean, log_std], value.squeeze(-1))\n";
  return {.source = std::move(text), .constants = std::move(actor.constants)};
}

// The logarithms of deviations, the second half of what the network tells, decide nothing about the mode.
ActingNet SacPolicy::acting_net() const {
  ActingNet net(actor_->encoder());
  const std::size_t head = net.add(actor_->net(), 0);
  const std::int64_t size = action_elements(spec().action);
  (void)net.add({.kind = ActingStep::Kind::kTakeFirst, .in = head, .count = size}, size);
  return net;
}

}  // namespace tandem::rl
