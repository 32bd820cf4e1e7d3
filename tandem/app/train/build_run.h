// app/train/build_run.h: typed options as what the library builds a run from, for the algorithms (app/algo); and what
// of a configuration does not go with its environment, which may have several agents (multi_agent.cc).
//
// Nothing here starts a thread: the functions translate option structs of the program into option structs of the
// library. Checks run before a run is built, so a refusal costs nothing.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/concurrency/cores.h"
#include "tandem/device/device_set.h"
#include "tandem/model/shard_random.h"
#include "tandem/rl/algo/run_setup.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/policy_map.h"
#include "tandem/rl/env/restarting_envs.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/sync/strategies.h"

namespace tandem::app {

/// `environments` with the plugins of the options, which a user has named, or which may be loaded unasked
/// (recorded_plugins.h). Loads the libraries, which stay loaded. Throws ConfigError as EnvRegistry::load_plugin() does.
[[nodiscard]] rl::EnvRegistry with_plugins(rl::EnvRegistry environments, const TrainOptions& options);

/// The same, in which the options' environment has its own options. Throws ConfigError as EnvRegistry::set_options()
/// does, and when there is no such environment.
[[nodiscard]] rl::EnvRegistry unwrapped_environments_of(const rl::EnvRegistry& environments,
                                                        const TrainOptions& options);
/// The same, in which it has its wrappers, too. Throws ConfigError as EnvRegistry::set_wrappers() does.
[[nodiscard]] rl::EnvRegistry environments_of(const rl::EnvRegistry& environments, const TrainOptions& options);
/// The return at which the options' environment counts as solved, of several agents the sum. None when it says none, or
/// is not known here, as when its plugin is gone.
[[nodiscard]] std::optional<double> threshold_of(const rl::EnvRegistry& environments, const TrainOptions& options);
/// Each "NAME=VALUE" as a pair. Throws ConfigError for an item that is none.
[[nodiscard]] rl::EnvOptionTexts option_texts(const std::vector<std::string>& items);

/// The policy that the options' algorithm trains, with the settings of one of its policies. The factory draws the
/// initial weights from the generator that it is given.
[[nodiscard]] rl::PolicyFactory policy_factory(const TrainOptions& options, const PolicySettings& settings);

/// The devices of this process's replicas, one each: those of the options, or one in their place where the process may
/// use `cores` = 1. On one core, replicas would take turns, and each would make the whole update; one that learns for
/// all shards has the same bits sooner. Where the number of replicas decides the bits, and on CUDA devices, it stays.
[[nodiscard]] std::vector<c10::Device> replica_devices(const TrainOptions& options, int cores);

/// Only the options of the chosen strategy are taken over.
[[nodiscard]] sync::StrategyOptions strategy_options(const TrainOptions& options);

/// "1024 rows, 512 a replica". Says "on average" when the shards do not divide evenly among them.
[[nodiscard]] std::string rows_text(std::int64_t rows, const rl::TrainingRun& run);

/// The environments of one agent that a run asks for, in processes of their own and made anew when they fail where the
/// plan says so. The registry is
/// copied into the function, so the plan may be gone when it is called.
[[nodiscard]] std::function<std::unique_ptr<rl::EnvGroup>(int count)> env_maker(const RunPlan& plan);

/// The same for environments of several agents, of which those in Python live in processes of their own.
[[nodiscard]] std::function<std::unique_ptr<rl::MultiAgentGroup>(int count)> agents_maker(
    const RunPlan& plan, const rl::MultiAgentEntry& entry);

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
  setup.devices = replica_devices(options, usable_cores().whole());
  const auto replicas = static_cast<std::int64_t>(device::parse_device_set(options.devices).size());
  setup.shards = static_cast<int>(options.shards.value_or(replicas));
  setup.strategy = strategy_options(options);
  setup.gradient_check = options.gradient_check;
  setup.actor.noise_hold_steps = static_cast<int>(options.policy.sde_sample_freq);
  if (options.instructions) setup.actor.instruction_set = *options.instructions;
  setup.cuda_kernels = options.cuda_kernels;
  setup.rng = options.rng == Rng::kShards ? model::RngOrder::kShards : model::RngOrder::kUnordered;
  if (const rl::MultiAgentEntry* agents = plan.environments.find_multi_agent(options.env)) {
    setup.agents = several_agents(options, *agents);
    setup.agents->make_envs = agents_maker(plan, *agents);
  } else {
    setup.make_envs = env_maker(plan);
    setup.make_policy = policy_factory(options, options.policy);
  }
  setup.normalizer = options.normalize.options();
  return setup;
}

/// Throws ConfigError as rl::mapping_of() does.
[[nodiscard]] rl::PolicyMapOptions map_options(const MultiAgentSettings& settings);
/// The policies of the options' environment. Throws ConfigError as rl::mapping_of() and rl::policy_map() do.
[[nodiscard]] rl::PolicyMap policy_map_of(const TrainOptions& options, const rl::MultiAgentEntry& entry);

using CheckOfOne = std::function<void(const TrainOptions&, const rl::Spec&)>;
using CheckOfSeveral = std::function<void(const TrainOptions&, const rl::MultiAgentEntry&)>;
/// A check of the option `key` in an environment of one agent, and in one of several; either may be missing.
/// `environments` outlives the check; the options' plugins are not loaded into it.
[[nodiscard]] OptionCheck environment_check(const rl::EnvRegistry& environments, const char* key, CheckOfOne of_one,
                                            CheckOfSeveral of_several = {});
/// Throws ConfigError where the option is set as `is_set` says: that the environment has several agents, and `why` this
/// does not go with them.
[[nodiscard]] OptionCheck refuse_several(const rl::EnvRegistry& environments, const char* key,
                                         std::function<bool(const TrainOptions&)> is_set, const char* why);
/// Returns checks of a configuration, by key: that there is its environment, settings that do not go with what the
/// environment shows, those that several agents do not go with, or that mean nothing for one.
[[nodiscard]] std::vector<OptionCheck> environment_checks(const rl::EnvRegistry& known);

}  // namespace tandem::app
