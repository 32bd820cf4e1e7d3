#include "tandem/app/train/build_run.h"

#include <numeric>
#include <span>
#include <utility>

#include "tandem/app/run/rollout_record.h"
#include "tandem/app/train/multi_agent.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/device/device_set.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::app {
namespace {

std::optional<int> count(const std::optional<std::int64_t>& setting) {
  return setting ? std::optional<int>(static_cast<int>(*setting)) : std::nullopt;
}

sync::SyncReplicasOptions sync_replicas_options(const SyncReplicasSettings& settings) {
  sync::SyncReplicasOptions options;
  options.max_replica_grad_norm = settings.max_replica_grad_norm;
  options.replicas_to_aggregate = count(settings.replicas_to_aggregate);
  options.acceptance = settings.acceptance;
  options.sparse_mean = settings.sparse_mean;
  options.tokens = settings.tokens;
  options.initial_tokens = count(settings.initial_tokens);
  options.rate_scaling = settings.rate_scaling;
  options.average_decay = settings.average_decay;
  options.average_of = settings.average_of;
  return options;
}

sync::AsynchronousOptions asynchronous_options(const AsynchronousSettings& settings) {
  return {.mean = {},
          .scaling = settings.scaling,
          .wait_for_slower = settings.wait_for_slower,
          .drop_staler = settings.drop_staler};
}

sync::ParameterServerOptions parameter_server_options(const ParameterServerSettings& settings) {
  return {.mean = {}, .servers = settings.servers, .variables = settings.variables};
}

sync::StrategyOptions strategy_options(const TrainOptions& options) {
  if (options.strategy == sync::StrategyKind::kAsynchronous) return asynchronous_options(options.asynchronous);
  if (options.strategy == sync::StrategyKind::kSyncReplicas) return sync_replicas_options(options.sync_replicas);
  if (options.strategy == sync::StrategyKind::kParameterServer)
    return parameter_server_options(options.parameter_server);
  return sync::options_of(options.strategy);
}

using Restarts = std::shared_ptr<rl::RestartBudget>;

// What the setups of all algorithms have.
template <typename Setup>
Setup common_setup(const TrainOptions& options, const learner::Ranks& ranks) {
  Setup setup;
  setup.ranks = ranks;
  setup.seed = static_cast<std::uint64_t>(options.seed);
  setup.total_steps = options.total_steps;
  setup.strategy = strategy_options(options);
  setup.gradient_check = options.gradient_check;
  setup.actor.noise_hold_steps = static_cast<int>(options.policy.sde_sample_freq);
  if (options.instructions) setup.actor.instruction_set = *options.instructions;
  setup.cuda_kernels = options.cuda_kernels;
  setup.rng = options.rng == Rng::kShards ? model::RngOrder::kShards : model::RngOrder::kUnordered;
  return setup;
}

// Those of algorithms that train one agent.
template <typename Setup>
Setup one_agent_setup(const TrainOptions& options, const rl::EnvRegistry& environments, const learner::Ranks& ranks,
                      const Restarts& restarts) {
  auto setup = common_setup<Setup>(options, ranks);
  const auto make = [environments, id = options.env](int count) { return environments.make(id, count); };
  setup.make_envs = make;
  if (restarts) {
    setup.make_envs = [make, restarts](int count) {
      return std::make_unique<rl::RestartingEnvs>(make, count, restarts);
    };
  }
  setup.make_policy = policy_factory(options.policy);
  return setup;
}

template <typename Setup>
void set_replicas(const TrainOptions& options, Setup& setup) {
  setup.devices = device::parse_device_set(options.devices);
  setup.shards = static_cast<int>(options.shards.value_or(static_cast<std::int64_t>(setup.devices.size())));
}

std::vector<std::vector<int>> follow_record(const TrainOptions& options, const std::string& text) {
  return read_rollouts(text, options.dd_ppo.replay->string(), static_cast<int>(options.shards.value_or(1)),
                       options.ppo.rollout_steps);
}

// Rank 0 has the file.
rl::StragglerSetup straggler_setup(const TrainOptions& options, const learner::Ranks& ranks) {
  rl::StragglerSetup setup{.options = options.dd_ppo.stragglers};
  if (!options.dd_ppo.replay) return setup;
  std::string text = ranks.leads() ? read_file(rollouts_of(*options.dd_ppo.replay)) : "";
  const std::vector<std::byte> bytes = ranks.from_leader(std::as_bytes(std::span(text)));
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  setup.recorded = follow_record(options, text);
  return setup;
}

rl::PpoSetup ppo_setup(const TrainOptions& options, const rl::EnvRegistry& environments, const learner::Ranks& ranks,
                       const Restarts& restarts) {
  auto setup = one_agent_setup<rl::PpoSetup>(options, environments, ranks, restarts);
  set_replicas(options, setup);
  setup.ppo = ppo_options(options);
  setup.normalizer = normalizer_options(options.normalize);
  if (options.algo == Algorithm::kDdPpo) setup.stragglers = straggler_setup(options, ranks);
  if (options.survivors == Survivors::kShrink) setup.while_missing = rl::WhileMissing::kShareRests;
  return setup;
}

rl::NamedPolicyFactory named_policy_factory(const PolicySettings& settings) {
  return [factory = policy_factory(settings)](const rl::MappedPolicy& policy, at::Generator generator) {
    return factory(policy.spec, std::move(generator));
  };
}

rl::SeveralAgents several_agents(const TrainOptions& options, const rl::MultiAgentEntry& entry) {
  return {.policies = map_options(options.multi_agent),
          .make_envs = entry.make,
          .make_policy = named_policy_factory(options.policy)};
}

rl::PpoSetup multi_agent_setup(const TrainOptions& options, const rl::MultiAgentEntry& entry,
                               const learner::Ranks& ranks) {
  auto setup = common_setup<rl::PpoSetup>(options, ranks);
  set_replicas(options, setup);
  setup.ppo = ppo_options(options);
  setup.agents = several_agents(options, entry);
  return setup;
}

void set_impala(const TrainOptions& options, rl::ImpalaSetup& setup) {
  set_replicas(options, setup);
  setup.impala = impala_options(options);
  if (options.algo == Algorithm::kAppo) setup.appo = options.appo;
}

rl::ImpalaSetup impala_setup(const TrainOptions& options, const rl::EnvRegistry& environments,
                             const learner::Ranks& ranks, const Restarts& restarts) {
  auto setup = one_agent_setup<rl::ImpalaSetup>(options, environments, ranks, restarts);
  set_impala(options, setup);
  setup.normalizer = normalizer_options(options.normalize);
  return setup;
}

rl::ImpalaSetup multi_agent_impala_setup(const TrainOptions& options, const rl::MultiAgentEntry& entry,
                                         const learner::Ranks& ranks) {
  auto setup = common_setup<rl::ImpalaSetup>(options, ranks);
  set_impala(options, setup);
  setup.agents = several_agents(options, entry);
  return setup;
}

}  // namespace

rl::EnvRegistry with_plugins(rl::EnvRegistry environments, const TrainOptions& options) {
  for (const std::filesystem::path& plugin : options.plugins) environments.load_plugin(plugin);
  return environments;
}

rl::PolicyFactory policy_factory(const PolicySettings& settings) {
  rl::MlpPolicyOptions options{.hidden = settings.hidden,
                               .activation = rl::activation(settings.activation),
                               .trunks = rl::trunks(settings.trunks),
                               .log_std_init = settings.log_std_init,
                               .hidden_gain = settings.hidden_gain,
                               .policy_gain = settings.policy_gain,
                               .value_gain = settings.value_gain,
                               .torso = settings.torso};
  if (settings.head) options.family = rl::action_family(*settings.head);
  if (settings.recurrent == Recurrence::kNone) return rl::mlp_policy_factory(std::move(options));
  return rl::recurrent_policy_factory(
      {.mlp = std::move(options),
       .cell = settings.recurrent == Recurrence::kLstm ? rl::CellKind::kLstm : rl::CellKind::kGru,
       .size = settings.recurrent_size});
}

rl::NormalizerOptions normalizer_options(const NormalizeSettings& settings) {
  return {.observations = settings.observations,
          .rewards = settings.rewards,
          .clip_observation = settings.clip_observation,
          .clip_reward = settings.clip_reward};
}

namespace {

// It would be found out at the record's end only.
void require_steps(const std::vector<std::vector<int>>& rollouts, const TrainOptions& options) {
  const std::int64_t envs = options.ppo.num_envs / options.shards.value_or(1);
  std::int64_t recorded = 0;
  for (const std::vector<int>& groups : rollouts)
    recorded += envs * std::accumulate(groups.begin(), groups.end(), std::int64_t{0});
  if (recorded >= options.total_steps) return;
  throw ConfigError(concat("the record ends after ", rollouts.size(), " updates with ", recorded,
                           " environment steps, and total_steps is ", options.total_steps, "; ask for at most ",
                           recorded));
}

}  // namespace

std::vector<std::vector<int>> recorded_rollouts(const TrainOptions& options) {
  if (!options.dd_ppo.replay) return {};
  try {
    std::vector<std::vector<int>> rollouts = follow_record(options, read_file(rollouts_of(*options.dd_ppo.replay)));
    require_steps(rollouts, options);
    const std::string fault = rl::record_fault(ppo_options(options), options.shards.value_or(1), rollouts);
    if (!fault.empty()) throw ConfigError(fault);
    return rollouts;
  } catch (const RunError& error) {
    throw ConfigError(error.what());  // that it cannot be read
  }
}

std::unique_ptr<rl::TrainingRun> make_run(const TrainOptions& options, const rl::EnvRegistry& environments,
                                          const learner::Ranks& ranks, const Restarts& restarts) {
  const rl::MultiAgentEntry* agents = environments.find_multi_agent(options.env);
  switch (options.algo) {
    case Algorithm::kPpo:
    case Algorithm::kDdPpo:
      if (agents != nullptr) return std::make_unique<rl::PpoRun>(multi_agent_setup(options, *agents, ranks));
      return std::make_unique<rl::PpoRun>(ppo_setup(options, environments, ranks, restarts));
    case Algorithm::kImpala:
    case Algorithm::kAppo:
      if (agents != nullptr) return std::make_unique<rl::ImpalaRun>(multi_agent_impala_setup(options, *agents, ranks));
      return std::make_unique<rl::ImpalaRun>(impala_setup(options, environments, ranks, restarts));
  }
  return nullptr;
}

}  // namespace tandem::app
