#include "tandem/rl/env/multi_agent_spec.h"

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {

bool is_plain_name(const std::string& name) {
  constexpr std::size_t kMost = 64;
  return !name.empty() && name.size() <= kMost && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Time limit and threshold are the whole environment's, so an agent's spec has none.
Spec agent_spec(const MultiAgentSpec& spec, std::size_t agent) {
  const AgentSpec& its = spec.agents.at(agent);
  return {.id = concat(spec.id, "/", its.name),
          .observation = its.observation,
          .action = its.action,
          .has_action_mask = its.has_action_mask};
}

Spec whole_spec(const MultiAgentSpec& spec) {
  return {.id = spec.id,
          .max_episode_steps = spec.max_episode_steps,
          .reward_threshold = spec.reward_threshold,
          .agents = static_cast<int>(spec.agents.size())};
}

// The faults of the whole first, then those of each agent: its name, and its part as a spec of one agent.
std::vector<std::string> spec_faults(const MultiAgentSpec& spec) {
  const std::string subject = concat("environment '", spec.id, "': ");
  std::vector<std::string> faults;
  if (spec.id.empty()) faults.emplace_back("environment without an id: give it a name such as \"Game-v0\"");
  if (spec.agents.empty()) faults.push_back(subject + "it has no agent");
  if (spec.max_episode_steps < 0)
    faults.push_back(
        concat(subject, "max_episode_steps = ", spec.max_episode_steps, "; a time limit is >= 1, and 0 means none"));
  for (std::size_t a = 0; a < spec.agents.size(); ++a) {
    const std::string& name = spec.agents[a].name;
    if (!is_plain_name(name))
      faults.push_back(
          concat(subject, "agent ", a, " is named '", name, "'; names are of lower-case letters, digits, '_' and '-'"));
    for (std::size_t b = 0; b < a; ++b) {
      if (spec.agents[b].name == name)
        faults.push_back(concat(subject, "agents ", b, " and ", a, " are both named '", name, "'"));
    }
    for (const std::string& fault : spec_faults(agent_spec(spec, a))) faults.push_back(fault);
  }
  return faults;
}

void check_spec(const MultiAgentSpec& spec) {
  std::vector<std::string> faults = spec_faults(spec);
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

}  // namespace tandem::rl
