// Checks here are those of every algorithm; an algorithm's own are in its file. Each check loads the options' plugins
// into a copy of the registry, so that the program's own stays as it is.
#include "tandem/app/train/multi_agent.h"

#include <algorithm>

#include "tandem/app/train/build_run.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/agent_policies.h"
#include "tandem/rl/policy/action_family.h"

namespace tandem::app {
namespace {

using Entry = rl::MultiAgentEntry;
using AgentsCheck = std::function<void(const TrainOptions&, const Entry&)>;

void refuse_if(bool wrong, const Entry& entry, const std::string& why) {
  if (wrong) refuse(entry, why);
}

void check_heads(const TrainOptions& options, const Entry& entry) {
  if (!options.policy.head) return;
  for (std::size_t agent = 0; agent < entry.spec.agents.size(); ++agent)
    rl::check_family(rl::action_family(*options.policy.head), entry.spec.agents[agent].action);
}

}  // namespace

void refuse(const Entry& entry, const std::string& why) {
  throw ConfigError(concat(entry.spec.id, " has several agents, ", why));
}

rl::PolicyMapOptions map_options(const MultiAgentSettings& settings) {
  rl::PolicyMapOptions options{
      .policies = settings.policies, .mapping = {}, .policies_to_train = settings.policies_to_train};
  if (!settings.mapping.empty()) options.mapping = rl::mapping_of(settings.mapping);
  return options;
}

rl::PolicyMap policy_map_of(const TrainOptions& options, const rl::MultiAgentEntry& entry) {
  return rl::policy_map(entry.spec, map_options(options.multi_agent));
}

// First come the settings that several agents do not support, then the settings that mean nothing for one agent. Each
// check is bound to the key that the message names.
std::vector<OptionCheck> multi_agent_checks(const rl::EnvRegistry& environments) {
  std::vector<OptionCheck> checks;
  // The check is copied into the list; `environments` is only referred to and outlives it.
  const auto with_agents = [&](const char* key, const AgentsCheck& check) {
    checks.push_back({key, [&environments, check](const TrainOptions& options) {
                        const rl::EnvRegistry known = with_plugins(environments, options);
                        if (const Entry* entry = known.find_multi_agent(options.env)) check(options, *entry);
                      }});
  };
  with_agents("strategy", [](const TrainOptions& options, const Entry& entry) {
    refuse_if(
        sync::depends_on_speed(options.strategy), entry,
        "whose learners need a strategy whose numbers do not depend on which replica is fast: replicated, divided or "
        "parameter_server");
  });
  with_agents("env_restarts", [](const TrainOptions& options, const Entry& entry) {
    refuse_if(options.env_restarts > 0, entry, "and such environments are not made anew when they fail; leave it at 0");
  });
  with_agents("policy.recurrent", [](const TrainOptions& options, const Entry& entry) {
    refuse_if(options.policy.recurrent != Recurrence::kNone, entry, "whose policies remember nothing so far; use none");
  });
  with_agents("policy.head", check_heads);
  with_agents("normalize.observations", [](const TrainOptions& options, const Entry& entry) {
    refuse_if(options.normalize.observations, entry, "for which nothing is normalised so far");
  });
  with_agents("normalize.rewards", [](const TrainOptions& options, const Entry& entry) {
    refuse_if(options.normalize.rewards, entry, "for which nothing is normalised so far");
  });
  with_agents("multi_agent.mapping",
              [](const TrainOptions& options, const Entry& entry) { (void)policy_map_of(options, entry); });
  const auto for_several = [&](const char* key, std::vector<std::string> MultiAgentSettings::*setting) {
    checks.push_back({key, [&environments, setting](const TrainOptions& options) {
                        if ((options.multi_agent.*setting).empty()) return;
                        if (with_plugins(environments, options).find_multi_agent(options.env) != nullptr) return;
                        throw ConfigError(concat("has no effect: ", options.env, " has one agent; leave it out"));
                      }});
  };
  for_several("multi_agent.policies", &MultiAgentSettings::policies);
  for_several("multi_agent.mapping", &MultiAgentSettings::mapping);
  for_several("multi_agent.policies_to_train", &MultiAgentSettings::policies_to_train);
  return checks;
}

TrainedPolicy load_policy(const model::Checkpoint& checkpoint, const TrainOptions& options,
                          const rl::MultiAgentEntry& entry, const std::string& name) {
  const rl::PolicyMap map = policy_map_of(options, entry);
  const auto found =
      // A run with one shared policy needs no name.
      name.empty() && map.size() == 1 ? map.begin() : std::ranges::find(map, name, &rl::MappedPolicy::name);
  if (found == map.end()) {
    std::string names;
    for (const rl::MappedPolicy& policy : map) names += concat(names.empty() ? "" : ", ", policy.name);
    throw ConfigError(concat(name.empty() ? "the run has several policies; say which with --policy"
                                          : concat("--policy ", name, ": the run has no such policy"),
                             "; there are ", names));
  }
  TrainedPolicy trained{.policy = policy_factory(options.policy)(found->spec, at::detail::createCPUGenerator(0)),
                        .normalizers = rl::Normalizers(found->spec, {})};
  model::copy_named(model_part(checkpoint.read_part(rl::PolicyNames(found->name).part).tensors),
                    model::named_state_of(*trained.policy));
  trained.policy->eval();
  return trained;
}

}  // namespace tandem::app
