// Checks here are those of every algorithm; an algorithm's own are in its file. Each check loads the options' plugins
// into a copy of the registry, so that the program's own stays as it is.
#include "tandem/app/train/multi_agent.h"

#include "tandem/app/train/build_run.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/action_family.h"
#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/normalizer.h"

namespace tandem::app {
namespace {

using Entry = rl::MultiAgentEntry;

void check_heads(const TrainOptions& options, const Entry& entry) {
  if (!options.policy.head) return;
  for (const rl::AgentSpec& agent : entry.spec.agents)
    rl::check_family(rl::action_family(*options.policy.head), agent.action);
}

// A list of checks, each with what it asks of an environment of one agent and of one of several; either may be missing.
class EnvironmentChecks {
 public:
  explicit EnvironmentChecks(const rl::EnvRegistry& environments) : environments_(environments) {}

  using OfOne = std::function<void(const TrainOptions&, const rl::Spec&)>;
  using OfSeveral = std::function<void(const TrainOptions&, const Entry&)>;
  void add(const char* key, const OfOne& of_one, const OfSeveral& of_several = {}) {
    checks.push_back({key, [&known = environments_, of_one, of_several](const TrainOptions& options) {
                        const rl::EnvRegistry all = with_plugins(known, options);
                        if (const Entry* entry = all.find_multi_agent(options.env)) {
                          if (of_several) of_several(options, *entry);
                        } else if (of_one) {
                          of_one(options, all.spec(options.env));
                        }
                      }});
  }
  void refuse_several(const char* key, bool (*is_set)(const TrainOptions&), const char* why) {
    add(key, {}, [is_set, why](const TrainOptions& options, const Entry& entry) {
      if (is_set(options)) refuse(entry, why);
    });
  }
  void refuse_one(const char* key, std::vector<std::string> MultiAgentSettings::*setting) {
    add(key, [setting](const TrainOptions& options, const rl::Spec&) {
      if ((options.multi_agent.*setting).empty()) return;
      throw ConfigError(concat("has no effect: ", options.env, " has one agent; leave it out"));
    });
  }

  std::vector<OptionCheck> checks;

 private:
  const rl::EnvRegistry& environments_;
};

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

// First come what an environment itself allows, then the settings that several agents do not support, then those that
// mean nothing for one agent. Each check is bound to the key that the message names.
std::vector<OptionCheck> environment_checks(const rl::EnvRegistry& environments) {
  EnvironmentChecks all(environments);
  all.add("env", [](const TrainOptions&, const rl::Spec&) {});  // throws when there is none of this name
  const auto check_head = [](const TrainOptions& options, const rl::Spec& spec) {
    if (options.policy.head) rl::check_family(rl::action_family(*options.policy.head), spec.action);
  };
  all.add("policy.head", check_head, check_heads);
  all.add("policy.torso", [](const TrainOptions& options, const rl::Spec& spec) {
    (void)rl::chosen_torso(options.policy.torso, spec);
  });
  all.add("normalize.observations", [](const TrainOptions& options, const rl::Spec& spec) {
    (void)rl::Normalizers(spec, normalizer_options(options.normalize));
  });
  all.refuse_several(
      "strategy", [](const TrainOptions& options) { return sync::depends_on_speed(options.strategy); },
      "whose learners need a strategy whose numbers do not depend on which replica is fast: replicated, divided or "
      "parameter_server");
  all.refuse_several(
      "env_restarts", [](const TrainOptions& options) { return options.env_restarts > 0; },
      "and such environments are not made anew when they fail; leave it at 0");
  all.refuse_several(
      "policy.recurrent", [](const TrainOptions& options) { return options.policy.recurrent != Recurrence::kNone; },
      "whose policies remember nothing so far; use none");
  all.refuse_several(
      "normalize.observations", [](const TrainOptions& options) { return options.normalize.observations; },
      "for which nothing is normalised so far");
  all.refuse_several(
      "normalize.rewards", [](const TrainOptions& options) { return options.normalize.rewards; },
      "for which nothing is normalised so far");
  all.add("multi_agent.mapping", {},
          [](const TrainOptions& options, const Entry& entry) { (void)policy_map_of(options, entry); });
  all.refuse_one("multi_agent.policies", &MultiAgentSettings::policies);
  all.refuse_one("multi_agent.mapping", &MultiAgentSettings::mapping);
  all.refuse_one("multi_agent.policies_to_train", &MultiAgentSettings::policies_to_train);
  return all.checks;
}

}  // namespace tandem::app
