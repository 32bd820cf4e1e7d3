// rl/env/policy_map.h: which policy decides for which agent, and which policies learn.
//
//   PolicyMap map = policy_map(spec, {.policies = {"leader", "others"},
//                                     .mapping = mapping_of({"cart_0=leader", "cart_*=others"}),
//                                     .policies_to_train = {"others"}});
//
// After RLlib's policies, policy_mapping_fn and policies_to_train. Agents share a policy when they are mapped to the
// same one; a policy that is not trained keeps the parameters that it starts with. Plain values; no torch here, so that
// a configuration is refused before work starts.
//
// Threads: free functions on values. Errors: ConfigError with all faults at once.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tandem/rl/env/multi_agent_spec.h"

namespace tandem::rl {

/// The name of an agent's policy; empty when it has none.
using PolicyMapping = std::function<std::string(const std::string& agent)>;

/// A mapping from rules "AGENT=POLICY", the first that fits. AGENT is a name, or the beginning of names and '*'.
/// Throws ConfigError naming each rule that is none.
[[nodiscard]] PolicyMapping mapping_of(const std::vector<std::string>& rules);

struct PolicyMapOptions {
  std::vector<std::string> policies = {};  // names; empty: one for each agent, under its name
  PolicyMapping mapping = {};  // none: to the policy of the agent's name, or, where there is one policy, to that
  std::vector<std::string> policies_to_train = {};  // names; empty: all
};

/// One policy of a run.
struct MappedPolicy {
  std::string name;
  std::vector<std::size_t> agents;  // whose it is, in the environment's order
  Spec spec;                        // what these agents see and do; its id is "KuhnPoker-v0/NAME"
  bool trained = true;
};
using PolicyMap = std::vector<MappedPolicy>;

/// In the order of the options' policies. Throws ConfigError for a policy that is unknown, named twice or without
/// agents, an agent without a policy, agents that cannot share one, and when nothing is trained.
[[nodiscard]] PolicyMap policy_map(const MultiAgentSpec& spec, const PolicyMapOptions& options);

}  // namespace tandem::rl
