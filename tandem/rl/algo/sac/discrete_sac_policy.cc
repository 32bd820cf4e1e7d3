#include "tandem/rl/algo/sac/discrete_sac_policy.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "tandem/base/text.h"
#include "tandem/rl/policy/acting_net.h"

namespace tandem::rl {

ChoiceValues::ChoiceValues(const Spec& spec, const NetworkOptions& options, int count, at::Generator& generator) {
  for (int i = 0; i < count; ++i) {
    networks_.push_back(register_module(
        std::to_string(i), std::make_shared<ObservationNetwork>(spec, options, head_size(spec.action), generator)));
  }
}

// [critics, B, choices], so that the least over critics is one reduction.
at::Tensor ChoiceValues::forward(const Observation& observation) {
  std::vector<at::Tensor> values;
  for (const auto& network : networks_) values.push_back(network->forward(observation));
  return at::stack(values);
}

DiscreteSacPolicy::DiscreteSacPolicy(const Spec& spec, const NetworkOptions& options, int critics, double temperature,
                                     at::Generator generator)
    : ActorCritic(spec, ActionFamily::kCategorical) {
  actor_ =
      register_module("actor", std::make_shared<ObservationNetwork>(spec, options, head_size(spec.action), generator));
  log_temperature_ = register_parameter("log_temperature", at::full({}, std::log(temperature), at::kFloat));
  critics_ = register_module("critics", std::make_shared<ChoiceValues>(spec, options, critics, generator));
}

// The value of a state is that of the choice which an evaluation takes.
PolicyOutput DiscreteSacPolicy::forward(const Observation& observation) {
  const at::Tensor logits = actor_->forward(observation);
  const at::Tensor best = logits.argmax(1, /*keepdim=*/true);
  return {.action_parameters = {logits}, .value = critics_->forward(observation).amin(0).gather(1, best).squeeze(1)};
}

// forward() once more, as text. Constants are those of the encoding, which is the same in all networks.
PolicyScript DiscreteSacPolicy::script() const {
  FlatFeatures::Script actor = actor_->script("actor", "x");
  std::string text = "def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]:\n" + actor.statements;
  for (std::size_t i = 0; i < critics_->networks().size(); ++i) {
    text += critics_->networks()[i]->script(concat("critics._", i), "q").statements;
    text += i == 0 ? "    least = q\n" : "    least = torch.minimum(least, q)\n";
  }
  text += "    return ([x], least.gather(1, torch.argmax(x, 1, True)).squeeze(1))\n";
  return {.source = std::move(text), .constants = std::move(actor.constants)};
}

ActingNet DiscreteSacPolicy::acting_net() const {
  ActingNet net(actor_->encoder());
  (void)net.add(actor_->net(), 0);
  return net;
}

}  // namespace tandem::rl
