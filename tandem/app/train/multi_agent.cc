// Checks here are those of every algorithm; an algorithm's own are in its file. Each check loads the options' plugins
// into a copy of the registry, so that the program's own stays as it is.

#include <algorithm>
#include <utility>

#include "tandem/app/config/policy_keys.h"
#include "tandem/app/train/build_run.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/python/python_envs.h"
#include "tandem/rl/policy/action_family.h"
#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/normalizer.h"

namespace tandem::app {
namespace {

using Entry = rl::MultiAgentEntry;

// An option that means nothing for an environment of one agent.
OptionCheck refuse_one(const rl::EnvRegistry& environments, const char* key,
                       std::vector<std::string> MultiAgentSettings::*setting) {
  return environment_check(environments, key, [setting](const TrainOptions& options, const rl::Spec&) {
    if ((options.multi_agent.*setting).empty()) return;
    throw ConfigError(concat("has no effect: ", options.env, " has one agent; leave it out"));
  });
}

void check_head(const PolicySettings& settings, const rl::ActionSpace& action) {
  if (settings.head) rl::check_family(rl::action_family(*settings.head), action);
}

// The policies of the run; none where they are at fault themselves, which the check of multi_agent.mapping tells.
rl::PolicyMap sound_map(const TrainOptions& options, const Entry& entry) {
  try {
    return policy_map_of(options, entry);
  } catch (const ConfigError&) {
    return {};
  }
}

// Calls `check` with the settings and the specification of each policy, and names the policy in what it throws.
template <typename Check>
void check_each_policy(const TrainOptions& options, const Entry& entry, Check check) {
  std::vector<std::string> faults;
  for (const rl::MappedPolicy& policy : sound_map(options, entry)) {
    try {
      check(settings_of_policy(options, policy.name), policy.spec);
    } catch (const ConfigError& error) {
      for (const std::string& fault : error.faults()) faults.push_back(concat("policy '", policy.name, "': ", fault));
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

// Settings of a single policy that the run does not have.
void check_names_of_policies(const TrainOptions& options, const Entry& entry) {
  const rl::PolicyMap map = sound_map(options, entry);
  std::vector<std::string> faults;
  if (map.empty()) return;
  for (const auto& [name, own] : options.policies) {
    if (own.empty() || std::ranges::find(map, name, &rl::MappedPolicy::name) != map.end()) continue;
    faults.push_back(concat("policies.", name, ".", own.begin()->first, " is set, and there is no policy '", name,
                            "'; there are ", joined(map, &rl::MappedPolicy::name)));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

void refuse_own_settings(const TrainOptions& options) {
  for (const auto& [name, own] : options.policies) {
    if (own.empty()) continue;
    throw ConfigError(concat("policies.", name, ".", own.begin()->first, " has no effect: ", options.env,
                             " has one agent; set policy.", own.begin()->first));
  }
}

void require_isolated(const TrainOptions& options) {
  if (!rl::is_python_env(options.env) || options.isolate_envs) return;
  throw ConfigError(concat(options.env, " is stepped by a Python, which is a process of its own; leave it out"));
}

}  // namespace

OptionCheck environment_check(const rl::EnvRegistry& environments, const char* key, CheckOfOne of_one,
                              CheckOfSeveral of_several) {
  return {key, [&environments, of_one = std::move(of_one), of_several = std::move(of_several)](const auto& options) {
            const rl::EnvRegistry known = environments_of(environments, options);
            if (const Entry* entry = known.find_multi_agent(options.env)) {
              if (of_several) of_several(options, *entry);
            } else if (of_one) {
              of_one(options, known.spec(options.env));
            }
          }};
}

OptionCheck refuse_several(const rl::EnvRegistry& environments, const char* key,
                           std::function<bool(const TrainOptions&)> is_set, const char* why) {
  return environment_check(environments, key, {},
                           [is_set = std::move(is_set), why](const auto& options, const Entry& entry) {
                             if (is_set(options))
                               throw ConfigError(concat(entry.spec.id, " has several agents, ", why));
                           });
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

// Only a Python knows whether it has an environment, and asking it takes the options.
void require_known(const rl::EnvRegistry& known, const TrainOptions& options) {
  if (rl::is_python_env(options.env))
    (void)unwrapped_environments_of(known, options);
  else
    (void)with_plugins(known, options).options(options.env);
}
void require_options(const rl::EnvRegistry& known, const TrainOptions& options) {
  if (!rl::is_python_env(options.env)) (void)unwrapped_environments_of(known, options);
}

// First come what an environment itself allows, then the settings that several agents do not support, then those that
// mean nothing for one agent. Each check is bound to the key that the message names.
std::vector<OptionCheck> environment_checks(const rl::EnvRegistry& known) {
  using Options = const TrainOptions&;
  return {
      // The first three throw when there is none of this name, or it does not take such options, or such wrappers.
      {"env", [&known](Options options) { require_known(known, options); }},
      {"env_options", [&known](Options options) { require_options(known, options); }},
      environment_check(known, "env_wrappers", [](Options, const rl::Spec&) {}),
      {"isolate_envs", require_isolated},
      environment_check(
          known, "policy.head", [](Options options, const rl::Spec& spec) { check_head(options.policy, spec.action); },
          [](Options options, const Entry& entry) {
            check_each_policy(options, entry, [](const PolicySettings& settings, const rl::Spec& spec) {
              check_head(settings, spec.action);
            });
          }),
      environment_check(
          known, "policy.torso",
          [](Options options, const rl::Spec& spec) { (void)rl::chosen_torso(options.policy.torso, spec); },
          [](Options options, const Entry& entry) {
            check_each_policy(options, entry, [](const PolicySettings& settings, const rl::Spec& spec) {
              (void)rl::chosen_torso(settings.torso, spec);
            });
          }),
      environment_check(
          known, "normalize.observations",
          [](Options options, const rl::Spec& spec) { (void)rl::Normalizers(spec, options.normalize.options()); },
          [](Options options, const Entry& entry) {
            for (std::size_t agent = 0; agent < entry.spec.agents.size(); ++agent)
              (void)rl::Normalizers(rl::agent_spec(entry.spec, agent), options.normalize.options());
          }),
      refuse_several(
          known, "strategy", [](Options options) { return sync::depends_on_speed(options.strategy); },
          "whose learners need a strategy whose numbers do not depend on which replica is fast: replicated, divided or "
          "parameter_server"),
      refuse_several(
          known, "env_restarts",
          [](Options options) { return options.env_restarts > 0 && !rl::is_python_env(options.env); },
          "and such environments are not made anew when they fail; leave it at 0"),
      refuse_several(
          known, "isolate_envs",
          [](Options options) { return options.isolate_envs && !rl::is_python_env(options.env); },
          "and such environments do not live in processes of their own so far; leave it at false"),
      environment_check(known, "multi_agent.mapping", {},
                        [](Options options, const Entry& entry) { (void)policy_map_of(options, entry); }),
      environment_check(
          known, "multi_agent.policies", [](Options options, const rl::Spec&) { refuse_own_settings(options); },
          check_names_of_policies),
      refuse_one(known, "multi_agent.policies", &MultiAgentSettings::policies),
      refuse_one(known, "multi_agent.mapping", &MultiAgentSettings::mapping),
      refuse_one(known, "multi_agent.policies_to_train", &MultiAgentSettings::policies_to_train),
  };
}

}  // namespace tandem::app
