// rl/env/multi_agent_spec.h: what an environment of several agents shows to each and takes from each. Plain values.
//
// Threads: free functions on values. Errors: check_spec() throws ConfigError; nothing else here fails.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// One agent. Its fields mean what they mean in Spec.
struct AgentSpec {
  std::string name;  // "player_0"
  std::vector<Leaf> observation = {};
  ActionSpace action = {};
  bool has_action_mask = false;
};

struct MultiAgentSpec {
  std::string id;  // "KuhnPoker-v0"
  std::vector<AgentSpec> agents = {};
  int max_episode_steps = 0;                    // time limit, which cuts short all agents in the game; 0: none
  std::optional<double> reward_threshold = {};  // of the return summed over all agents
};

/// Everything that is wrong with a spec, one sentence each; empty when it can be used.
[[nodiscard]] std::vector<std::string> spec_faults(const MultiAgentSpec& spec);
/// Throws ConfigError with all of spec_faults().
void check_spec(const MultiAgentSpec& spec);

/// The spec of one agent alone, as its policy sees it; its id is "KuhnPoker-v0/player_0".
[[nodiscard]] Spec agent_spec(const MultiAgentSpec& spec, std::size_t agent);
/// What the environment as a whole has: id, time limit and threshold, without observations and actions.
[[nodiscard]] Spec whole_spec(const MultiAgentSpec& spec);

/// Whether a word can name an agent or a policy, and so become part of metrics' and files' names: lower-case letters,
/// digits, '_' and '-', from 1 to 64.
[[nodiscard]] bool is_plain_name(const std::string& name);

}  // namespace tandem::rl
