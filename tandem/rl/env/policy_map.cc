#include "tandem/rl/env/policy_map.h"

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string observations_of(const AgentSpec& agent) {
  return joined(agent.observation, [](const Leaf& leaf) { return describe(leaf); });
}

// Describes the difference of two agents that keeps one policy from serving both; empty when there is none. Bounds
// count, because policies scale and encode observations by them.
std::string difference(const AgentSpec& a, const AgentSpec& b) {
  if (a.observation != b.observation)
    return concat("sees ", observations_of(a), ", and ", b.name, " ", observations_of(b),
                  observations_of(a) == observations_of(b) ? " within other bounds" : "");
  if (a.action != b.action)
    return concat("does ", describe(a.action), ", and ", b.name, " ", describe(b.action),
                  describe(a.action) == describe(b.action) ? " within other bounds" : "");
  if (a.has_action_mask != b.has_action_mask)
    return concat(a.has_action_mask ? "has" : "has no", " action mask, and ", b.name,
                  b.has_action_mask ? " has one" : " has none");
  return "";
}

// Builds the map step by step and collects all faults: policies get names, agents get policies, policies get the spec
// of their agents, and those that learn are marked.
class Mapping {
 public:
  Mapping(const MultiAgentSpec& spec, const PolicyMapOptions& options) : spec_(spec), options_(options) {}

  PolicyMap map() {
    check_spec(spec_);
    name_policies();
    assign_agents();
    for (MappedPolicy& policy : map_) complete(policy);
    mark_trained();
    if (!faults_.empty()) throw ConfigError(std::move(faults_));
    return std::move(map_);
  }

 private:
  template <typename... Values>
  void fault(const Values&... values) {
    faults_.push_back(concat(values...));
  }

  void name_policies() {
    names_ = options_.policies;
    if (names_.empty()) {
      for (const AgentSpec& agent : spec_.agents) names_.push_back(agent.name);
    }
    for (const std::string& name : names_) {
      if (!is_plain_name(name)) fault("policy '", name, "': names are of lower-case letters, digits, '_' and '-'");
      if (std::ranges::count(names_, name) > 1) fault("policy '", name, "' is named twice");
      map_.push_back({.name = name, .agents = {}, .spec = {}, .trained = true});
    }
  }

  // The policy that the options give an agent; empty for none.
  std::string policy_of(const std::string& agent) {
    if (options_.mapping) return options_.mapping(agent);
    if (names_.size() == 1) return names_.front();
    return contains(names_, agent) ? agent : "";
  }

  // An agent of a fault belongs to no policy, so the later steps go on and may find more faults.
  void assign_agents() {
    for (std::size_t a = 0; a < spec_.agents.size(); ++a) {
      const std::string& agent = spec_.agents[a].name;
      const std::string policy = policy_of(agent);
      const auto found = std::ranges::find(map_, policy, &MappedPolicy::name);
      if (policy.empty()) {
        fault("agent ", agent, " of ", spec_.id, " has no policy; map it to one of ", joined(names_));
      } else if (found == map_.end()) {
        fault("agent ", agent, " of ", spec_.id, " is mapped to policy '", policy, "', and there is none; there are ",
              joined(names_));
      } else {
        found->agents.push_back(a);
      }
    }
  }

  // Gives a policy the spec of its first agent and checks that all its other agents are like that one.
  void complete(MappedPolicy& policy) {
    if (policy.agents.empty()) {
      std::vector<std::string> agents;
      for (const AgentSpec& agent : spec_.agents) agents.push_back(agent.name);
      fault("policy '", policy.name, "' has no agent of ", spec_.id, ", whose agents are ", joined(agents),
            "; map one to it, or leave it out");
      return;
    }
    policy.spec = agent_spec(spec_, policy.agents.front());
    policy.spec.id = concat(spec_.id, "/", policy.name);
    const AgentSpec& first = spec_.agents[policy.agents.front()];
    for (const std::size_t agent : policy.agents) {
      const std::string differs = difference(first, spec_.agents[agent]);
      if (!differs.empty())
        fault("policy '", policy.name, "' cannot serve both ", first.name, " and ", spec_.agents[agent].name, ": ",
              first.name, " ", differs, "; give them a policy each");
    }
  }

  void mark_trained() {
    if (options_.policies_to_train.empty()) return;
    for (const std::string& name : options_.policies_to_train) {
      if (!contains(names_, name))
        fault("policy '", name, "' is to be trained, and there is none; there are ", joined(names_));
    }
    for (MappedPolicy& policy : map_) policy.trained = contains(options_.policies_to_train, policy.name);
  }

  const MultiAgentSpec& spec_;
  const PolicyMapOptions& options_;
  std::vector<std::string> names_, faults_;
  PolicyMap map_;
};

}  // namespace

// Rules are parsed at once, with all faults, so that the mapping itself cannot fail.
PolicyMapping mapping_of(const std::vector<std::string>& rules) {
  std::vector<std::pair<std::string, std::string>> parsed;
  std::vector<std::string> faults;
  for (const std::string& rule : rules) {
    const std::size_t middle = rule.find('=');
    if (middle == std::string::npos || middle == 0 || middle + 1 == rule.size()) {
      faults.push_back(concat("'", rule,
                              "' is no rule of a mapping; those are AGENT=POLICY, and cart_*=POLICY for all "
                              "agents whose names begin with cart_"));
      continue;
    }
    parsed.emplace_back(rule.substr(0, middle), rule.substr(middle + 1));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return [parsed](const std::string& agent) -> std::string {
    for (const auto& [pattern, policy] : parsed) {
      const bool fits =
          pattern.ends_with('*') ? agent.starts_with(pattern.substr(0, pattern.size() - 1)) : agent == pattern;
      if (fits) return policy;
    }
    return "";
  };
}

PolicyMap policy_map(const MultiAgentSpec& spec, const PolicyMapOptions& options) {
  return Mapping(spec, options).map();
}

}  // namespace tandem::rl
