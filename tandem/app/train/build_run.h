// app/train/build_run.h: typed options as what the library builds a run from.
#pragma once
#include <memory>

#include "tandem/app/config/train_options.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/restarting_envs.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::app {

/// `environments` with the plugins of the options. Throws ConfigError as EnvRegistry::load_plugin() does.
[[nodiscard]] rl::EnvRegistry with_plugins(rl::EnvRegistry environments, const TrainOptions& options);

/// The policy that the options describe.
[[nodiscard]] rl::PolicyFactory policy_factory(const PolicySettings& settings);

[[nodiscard]] rl::NormalizerOptions normalizer_options(const NormalizeSettings& settings);

/// The record that the options follow, for its groups; nothing where they follow none. Throws ConfigError when it
/// cannot be read or followed.
[[nodiscard]] std::vector<std::vector<int>> recorded_rollouts(const TrainOptions& options);

/// A run of `options`, whose shards are resolved, over `ranks`. The registry is copied. Throws ConfigError for devices
/// and policies that cannot be. `restarts`: of its environments, when they are made anew; or null.
[[nodiscard]] std::unique_ptr<rl::TrainingRun> make_run(const TrainOptions& options,
                                                        const rl::EnvRegistry& environments,
                                                        const learner::Ranks& ranks,
                                                        const std::shared_ptr<rl::RestartBudget>& restarts);

}  // namespace tandem::app
