#include "tandem/rl/algo/td3/td3_policy.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>

#include "tandem/base/text.h"
#include "tandem/rl/policy/acting_net.h"

namespace tandem::rl {

Td3Policy::Td3Policy(const Spec& spec, const NetworkOptions& options, int critics, double noise,
                     at::Generator generator)
    : ActorCritic(spec, ActionFamily::kNormal) {
  actor_ = register_module(
      "actor", std::make_shared<ObservationNetwork>(spec, options, action_elements(spec.action), generator));
  critics_ = register_module("critics", std::make_shared<ActionValues>(spec, options, critics, generator));
  log_std_ = register_buffer("log_std", at::full({action_elements(spec.action)}, std::log(noise), at::kFloat));
}

PolicyOutput Td3Policy::forward(const Observation& observation) {
  const at::Tensor action = this->action(observation);
  const at::Tensor values = critics_->forward(critics_->encode(observation), action);
  return {.action_parameters = {action, log_std_}, .value = values.amin(0)};
}

// forward() once more, as text. The critics' features are those of the actor where there is no torso.
PolicyScript Td3Policy::script() const {
  FlatFeatures::Script actor = actor_->script("actor", "x");
  std::string text = "def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:\n" + actor.statements;
  text += "    action = torch.tanh(x)\n";
  if (critics_->has_torso()) text += critics_->script("critics.torso");
  text += critics_->least_script("critics", "action");
  text += "    return ([action, self.log_std], value.squeeze(-1))\n";
  return {.source = std::move(text), .constants = std::move(actor.constants)};
}

ActingNet Td3Policy::acting_net() const {
  ActingNet net(actor_->encoder());
  const std::size_t head = net.add(actor_->net(), 0);
  (void)net.add({.kind = ActingStep::Kind::kSquash, .in = head}, net.size(head));
  return net;
}

}  // namespace tandem::rl
