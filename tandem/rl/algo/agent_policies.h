// rl/algo/agent_policies.h: the policies of a run with several agents: how they are made, seated in env groups and
// named in checkpoints, the same for all algorithms.
//
// Threads: the owner's of the run.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/several_agents.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/rollout/multi_agent_worker.h"

namespace tandem::rl {

/// The seed that a policy derives its own streams from. `policy`: its place in the policy map.
/// Policies of one run so draw from different streams, and a policy keeps its stream when others change.
[[nodiscard]] std::uint64_t seed_of_policy(std::uint64_t run_seed, std::size_t policy);

/// On the CPU, with the same parameters each time; one that is not trained is in evaluation mode. Throws ConfigError
/// for a policy that remembers.
[[nodiscard]] std::shared_ptr<ActorCritic> make_mapped_policy(const NamedPolicyFactory& make,
                                                              const MappedPolicy& policy, std::uint64_t seed);

/// All policies in env group `group` of the run, which has `envs` environments. `policies`: by place, and alive as long
/// as the seats.
/// The actors refer to the policies. Each seat's actor draws from a stream of (run, policy, group), so a group samples
/// the same wherever it runs.
[[nodiscard]] std::vector<PolicySeat> policy_seats(const PolicyMap& map,
                                                   std::span<const std::shared_ptr<ActorCritic>> policies,
                                                   const ActorOptions& actor, int envs, std::uint64_t run_seed,
                                                   int group);

/// The name of the threads that learn a policy: those have 15 characters, and the last are the replica's number.
[[nodiscard]] std::string threads_of_policy(const std::string& name);

/// Parts of a checkpoint, by policy: its parameters, and its counters and episodes.
[[nodiscard]] std::string policy_part(const std::string& name);
[[nodiscard]] std::string progress_part(const std::string& name);
/// A policy's random stream among those of a shard.
/// The name must stay as it is: checkpoints of earlier builds have it.
[[nodiscard]] std::string generator_name(const std::string& policy);
/// Appends tensors to `all` under NAME/TENSOR.
void append_under(const std::string& policy, const model::NamedTensors& tensors, model::NamedTensors& all);

}  // namespace tandem::rl
