// rl/env/policy_map.h: which policy decides for which agent, and which policies learn.
//
//   PolicyMap map = policy_map(spec, {.policies = {"leader", "others"},
//                                     .mapping = mapping_of({"cart_0=leader", "cart_*=others"}),
//                                     .policies_to_train = {"others"}});
//
// The terms are RLlib's policies, policy_mapping_fn and policies_to_train. Agents share a policy when they are mapped
// to the same one, which needs equal observations, actions and masks. A policy that is not trained keeps the parameters
// that it starts with. Plain values; no torch here, so that a configuration is refused before work starts.
//
// Threads: free functions on values. Errors: ConfigError with all faults at once.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// Returns the name of an agent's policy; empty when the agent has none.
using PolicyMapping = std::function<std::string(const std::string& agent)>;

/// A mapping from rules "AGENT=POLICY", of which the first that fits an agent decides. AGENT is a name, or the
/// beginning of names and '*'. Throws ConfigError naming each text that is no rule.
[[nodiscard]] PolicyMapping mapping_of(const std::vector<std::string>& rules);

struct PolicyMapOptions {
  /// Names of the policies; empty: a policy for each agent, under the agent's name.
  std::vector<std::string> policies = {};
  /// None: an agent has the policy of its own name or, where there is one policy, that policy.
  PolicyMapping mapping = {};
  /// Names of the policies that learn; empty: all.
  std::vector<std::string> policies_to_train = {};
};

/// One policy of a run.
struct MappedPolicy {
  std::string name;
  /// The numbers of the agents that it decides for, in the environment's order.
  std::vector<std::size_t> agents;
  /// The observations and actions of these agents; spec.id is "KuhnPoker-v0/NAME".
  Spec spec;
  bool trained = true;
};
using PolicyMap = std::vector<MappedPolicy>;

/// The policies of a run, in the order of the options. Throws ConfigError for a policy that is unknown, named twice or
/// without agents, an agent without a policy, and agents that cannot share a policy.
[[nodiscard]] PolicyMap policy_map(const MultiAgentSpec& spec, const PolicyMapOptions& options);

}  // namespace tandem::rl
