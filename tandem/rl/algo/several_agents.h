// rl/algo/several_agents.h: environments with several agents, and who makes the policies.
#pragma once
#include <functional>
#include <memory>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/policy_map.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Makes a policy of the run by its name; as PolicyFactory.
/// Must give the same parameters for the same generator: each replica and rollout worker gets a module of its own.
using NamedPolicyFactory = std::function<std::shared_ptr<ActorCritic>(const MappedPolicy& policy, at::Generator)>;

/// The factories are called on the thread that builds the run, one call at a time.
struct SeveralAgents {
  PolicyMapOptions policies;
  std::function<std::unique_ptr<MultiAgentGroup>(int count)> make_envs;
  NamedPolicyFactory make_policy;
};

}  // namespace tandem::rl
