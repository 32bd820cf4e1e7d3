#include "tandem/rl/policy/policy.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {

ActorCritic::ActorCritic(const Spec& spec) : ActorCritic(spec, usual_family(spec.action)) {}

ActorCritic::ActorCritic(const Spec& spec, ActionFamily family) : spec_(spec), family_(family) {
  check_spec(spec);
  check_family(family, spec.action);
}

std::unique_ptr<model::Distribution> ActorCritic::distribution(const PolicyOutput& output,
                                                               const at::Tensor& mask) const {
  return make_distribution(family_, spec_.action, output.action_parameters, mask);
}

PolicyScript ActorCritic::script() const {
  throw ConfigError(
      "this policy cannot be exported to TorchScript: its class does not override ActorCritic::script(), which returns "
      "the source of `def policy(self, observation: List[Tensor]) -> Tuple[List[Tensor], Tensor]`; export the weights "
      "alone as .safetensors instead, or override it");
}

}  // namespace tandem::rl
