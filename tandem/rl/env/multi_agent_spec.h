// rl/env/multi_agent_spec.h: what an environment of several agents shows to each agent and takes from each.
//
// Plain values, immutable once handed to the runtime. They cross the border to plugins (plugin.h).
// Threads: free functions on values. Errors: check_spec() throws ConfigError; nothing else here fails.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// One agent. Its fields mean what they mean in Spec. Agents may differ in all of them; one policy can serve agents
/// that differ in the name only (policy_map.h).
struct AgentSpec {
  /// "player_0": unlike those of the other agents, and an is_plain_name().
  std::string name;
  std::vector<Leaf> observation = {};
  ActionSpace action = {};
  bool has_action_mask = false;
};

/// Agents are known by their index in `agents` everywhere but in messages and configurations.
struct MultiAgentSpec {
  /// "KuhnPoker-v0": the name in the registry.
  std::string id;
  std::vector<AgentSpec> agents = {};
  /// The time limit in steps of the environment, which cuts short all agents that are still in the game; 0: none.
  int max_episode_steps = 0;
  /// The return, summed over all agents, at which the task counts as solved.
  std::optional<double> reward_threshold = {};
};

/// Everything that is wrong with a spec and with each agent's part of it, one sentence each; empty when it can be used.
[[nodiscard]] std::vector<std::string> spec_faults(const MultiAgentSpec& spec);
/// Throws ConfigError with all of spec_faults().
void check_spec(const MultiAgentSpec& spec);

/// The spec of one agent alone, as its policy sees it; its id is "KuhnPoker-v0/player_0". It is what functions for
/// environments of one agent take, such as check_actions().
[[nodiscard]] Spec agent_spec(const MultiAgentSpec& spec, std::size_t agent);
/// The environment as a whole, as reports and listings name it: id, time limit, threshold and the number of agents,
/// without observations and actions.
[[nodiscard]] Spec whole_spec(const MultiAgentSpec& spec);

/// Whether a word can name an agent or a policy, and so become part of the names of metrics and files: 1 to 64
/// lower-case letters, digits, '_' and '-'.
[[nodiscard]] bool is_plain_name(const std::string& name);

}  // namespace tandem::rl
