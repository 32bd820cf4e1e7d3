// rl/algo/agent_policies.h: the policies of a run: which there are, how they are made, seated in env groups and named
// in checkpoints, the same for all algorithms.
//
// Threads: the owner's of the run.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/rl/algo/run_setup.h"
#include "tandem/rl/rollout/multi_agent_worker.h"

namespace tandem::rl {

/// The policies of the run. With one agent there is one, which has no name and is trained. Writes to `whole` what the
/// environments are like as a whole. Throws ConfigError for environments with several agents in a setup of one.
[[nodiscard]] PolicyMap map_of(const RunSetup& setup, Spec& whole);

/// The seed that a policy derives its own streams from. `policy`: its place in the map. Policies of several agents so
/// draw from different streams, and a policy keeps its stream when others change.
[[nodiscard]] std::uint64_t seed_of(const RunSetup& setup, std::size_t policy);

/// Returns a new module on the CPU, with the same parameters each time; one that is not trained is in evaluation mode.
/// Throws ConfigError for a policy of several agents that remembers.
[[nodiscard]] std::shared_ptr<ActorCritic> build_policy(const RunSetup& setup, const PolicyMap& map,
                                                        std::size_t policy);

/// All policies in env group `group` of the run, which has `envs` environments. `policies`: by place, and alive as long
/// as the seats.
/// The actors refer to the policies. Each seat's actor draws from a stream of (run, policy, group), so a group samples
/// the same wherever it runs.
[[nodiscard]] std::vector<PolicySeat> policy_seats(const RunSetup& setup, const PolicyMap& map,
                                                   std::span<const std::shared_ptr<ActorCritic>> policies, int envs,
                                                   int group);

/// The name of the threads that learn a policy: those have 15 characters, and the last are the replica's number.
[[nodiscard]] std::string threads_of_policy(const std::string& name);

/// Names of what a policy has in checkpoints and hashes. Those of one agent's policy, which has no name, are as old as
/// runs that knew no seats.
/// The names must stay as they are: checkpoints of earlier builds have them.
struct PolicyNames {
  explicit PolicyNames(const std::string& policy);

  bool one_agent;
  std::string part, progress, target;  // parts: model and optimizer; counters and episodes; APPO's target
  std::string generator;               // the policy's random stream among those of a shard
  std::string prefix, target_prefix;   // of the tensors that are hashed
};

}  // namespace tandem::rl
