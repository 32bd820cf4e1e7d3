// app/train/build_run.h: typed options as what the library builds a run from; for the algorithms (app/algo).
//
// Nothing here starts a thread or an environment: the functions translate option structs of the program into option
// structs of the library.
#pragma once
#include <memory>
#include <string>

#include "tandem/app/config/algorithm.h"
#include "tandem/device/device_set.h"
#include "tandem/model/shard_random.h"
#include "tandem/rl/algo/run_setup.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/restarting_envs.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/sync/strategies.h"

namespace tandem::app {

/// `environments` with the plugins of the options. Throws ConfigError as EnvRegistry::load_plugin() does.
[[nodiscard]] rl::EnvRegistry with_plugins(rl::EnvRegistry environments, const TrainOptions& options);

/// The policy that the options describe. The factory draws the initial weights from the generator that it is given.
[[nodiscard]] rl::PolicyFactory policy_factory(const PolicySettings& settings);

[[nodiscard]] rl::NormalizerOptions normalizer_options(const NormalizeSettings& settings);
/// Only the options of the chosen strategy are taken over.
[[nodiscard]] sync::StrategyOptions strategy_options(const TrainOptions& options);

/// "1024 rows, 512 a replica". Says "on average" when the shards do not divide evenly among them.
[[nodiscard]] std::string rows_text(std::int64_t rows, const rl::TrainingRun& run);

/// The environments of one agent that a run asks for, made anew when they fail where the plan says so. The registry is
/// copied into the function, so the plan may be gone when it is called.
[[nodiscard]] std::function<std::unique_ptr<rl::EnvGroup>(int count)> env_maker(const RunPlan& plan);

/// The environment's agents and their policies, where it has several.
[[nodiscard]] rl::SeveralAgents several_agents(const TrainOptions& options, const rl::MultiAgentEntry& entry);

/// Makes a setup for the plan's environment, whether it has one agent or several. Setup has `agents`, as PpoSetup.
/// `shards` defaults to the number of devices.
template <typename Setup>
Setup setup_for(const RunPlan& plan) {
  const TrainOptions& options = plan.options;
  Setup setup;
  setup.ranks = plan.ranks;
  setup.seed = static_cast<std::uint64_t>(options.seed);
  setup.total_steps = options.total_steps;
  setup.devices = device::parse_device_set(options.devices);
  setup.shards = static_cast<int>(options.shards.value_or(static_cast<std::int64_t>(setup.devices.size())));
  setup.strategy = strategy_options(options);
  setup.gradient_check = options.gradient_check;
  setup.actor.noise_hold_steps = static_cast<int>(options.policy.sde_sample_freq);
  if (options.instructions) setup.actor.instruction_set = *options.instructions;
  setup.cuda_kernels = options.cuda_kernels;
  setup.rng = options.rng == Rng::kShards ? model::RngOrder::kShards : model::RngOrder::kUnordered;
  if (const rl::MultiAgentEntry* agents = plan.environments.find_multi_agent(options.env)) {
    setup.agents = several_agents(options, *agents);
  } else {
    setup.make_envs = env_maker(plan);
    setup.make_policy = policy_factory(options.policy);
    setup.normalizer = normalizer_options(options.normalize);
  }
  return setup;
}

}  // namespace tandem::app
