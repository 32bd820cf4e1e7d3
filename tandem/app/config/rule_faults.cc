// Rules about options that are fine one by one, in the order of their messages: the algorithm's, the strategies', and
// that whatever is asked for has an effect.
#include "tandem/app/config/configuration.h"
#include "tandem/app/config/policy_keys.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// An option that was asked for and would do nothing is a fault: someone expects something of it.
// Presets and records may hold options without effect; only what a file or a flag asks for counts.
void check_effects(Rules& rules) {
  for (const auto& option : rules.table().options()) {
    if (option->origin().layer < Layer::kFile || rules.table().has_effect(*option)) continue;
    const Option::Needed& needed = option->needed();
    if (rules.table().at(needed.key).is_faulty()) continue;
    rules.fault(option->key(), concat("has no effect without ", needed.text()));
  }
}

}  // namespace

std::vector<std::string> rule_faults(const TrainOptions& options, const OptionTable& table, int replicas) {
  Rules rules(options, table, replicas);
  // The order is the order of messages.
  if (options.env.empty() && !rules.any_faulty({"env"}))
    rules.fault("env",
                "name an environment, e.g. --env CartPole-v1; `tandem envs` lists them, with --plugin those of a "
                "plugin as well");
  // A word that is no algorithm was refused by the table, so the option still names one that exists.
  algorithm_of(options).check(rules);
  const bool checks_each = options.gradient_check != sync::GradientCheck::kSum;
  if (checks_each && options.strategy == sync::StrategyKind::kSyncReplicas &&
      !rules.any_faulty({"gradient_check", "strategy"}))
    rules.fault("gradient_check", "sync_replicas looks at each replica's gradient as it is; leave it at sum");
  if (options.strategy == sync::StrategyKind::kLocalSteps) {
    for (const sync::StrategyFault& found : sync::faults_of(options.local_steps))
      if (!rules.any_faulty({found.option})) rules.fault(found.option, found.problem);
  }
  check_effects(rules);
  check_policies_effects(rules);
  check_policies_sizes(rules);
  return rules.faults();
}

}  // namespace tandem::app
