// app/train/multi_agent.h: the options of runs with several agents, as what the library takes; and what of a
// configuration does not go with them.
//
// Threads: free functions on values. Checks run before a run is built, so a refusal costs nothing.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/policy_map.h"

namespace tandem::app {

/// Throws ConfigError as rl::mapping_of() does.
[[nodiscard]] rl::PolicyMapOptions map_options(const MultiAgentSettings& settings);
/// The policies of the options' environment. Throws ConfigError as rl::mapping_of() and rl::policy_map() do.
[[nodiscard]] rl::PolicyMap policy_map_of(const TrainOptions& options, const rl::MultiAgentEntry& entry);

/// Throws ConfigError: that the environment has several agents, and why this does not go with them.
[[noreturn]] void refuse(const rl::MultiAgentEntry& entry, const std::string& why);
/// Returns checks of a configuration, by key: that there is its environment, settings that do not go with what the
/// environment shows, those that several agents do not go with, or that mean nothing for one. `environments` outlives
/// the result; the options' plugins are not loaded into it.
[[nodiscard]] std::vector<OptionCheck> environment_checks(const rl::EnvRegistry& environments);

}  // namespace tandem::app
