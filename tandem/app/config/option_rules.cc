#include "tandem/app/config/option_rules.h"

#include <algorithm>

#include "tandem/app/config/algorithm.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

void check_env(Rules& rules) {
  if (!rules.options().env.empty() || rules.any_faulty({"env"})) return;
  rules.fault("env", "name an environment, e.g. --env CartPole-v1; `tandem envs` lists them");
}

void check_gradient_check(Rules& rules) {
  if (rules.any_faulty({"gradient_check", "strategy"})) return;
  if (rules.options().strategy != sync::StrategyKind::kSyncReplicas) return;
  if (rules.options().gradient_check == sync::GradientCheck::kSum) return;
  rules.fault("gradient_check", "sync_replicas looks at each replica's gradient as it is; leave it at sum");
}

// An option that was asked for and would do nothing is a fault: someone expects something of it.
// Presets and records may hold options without effect; only what a file or a flag asks for counts.
void check_effects(Rules& rules) {
  for (const auto& option : rules.table().options()) {
    if (option->origin().layer < Layer::kFile || rules.table().has_effect(*option)) continue;
    const Option::Needed& needed = option->needed();
    if (rules.table().at(needed.key).is_faulty()) continue;
    std::string texts;
    for (const std::string& text : needed.texts) texts += concat(texts.empty() ? "" : " or ", text);
    rules.fault(option->key(), concat("has no effect without ", needed.key, ": ", texts));
  }
}

}  // namespace

bool Rules::any_faulty(std::initializer_list<std::string_view> keys) const {
  return std::ranges::any_of(keys, [this](std::string_view key) { return table_.at(key).is_faulty(); });
}

std::vector<std::string> rule_faults(const TrainOptions& options, const OptionTable& table, int replicas) {
  Rules rules(options, table, replicas);
  // The order is the order of messages.
  check_env(rules);
  // A word that is no algorithm was refused by the table, so the option still names one that exists.
  algorithm_of(options).check(rules);
  check_gradient_check(rules);
  check_effects(rules);
  return rules.faults();
}

}  // namespace tandem::app
