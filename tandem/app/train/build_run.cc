#include "tandem/app/train/build_run.h"

#include <map>
#include <utility>

#include "tandem/app/config/policy_keys.h"
#include "tandem/app/train/isolation.h"
#include "tandem/app/train/python_choice.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/python/python_envs.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::app {
namespace {

// Tandem's actor-critics as the settings describe them.
rl::PolicyFactory actor_critic_factory(const PolicySettings& settings) {
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

}  // namespace

std::vector<c10::Device> replica_devices(const TrainOptions& options, int cores) {
  std::vector<c10::Device> devices = device::parse_device_set(options.devices);
  const bool have_same_bits = sync::is_lockstep(options.strategy) && options.rng == Rng::kShards;
  if (cores == 1 && have_same_bits && devices.front().is_cpu()) devices.resize(1, devices.front());
  return devices;
}

// Three strategies have options of their own; the others are fully described by their kind.
sync::StrategyOptions strategy_options(const TrainOptions& options) {
  if (options.strategy == sync::StrategyKind::kAsynchronous) return options.asynchronous;
  if (options.strategy == sync::StrategyKind::kSyncReplicas) return options.sync_replicas;
  if (options.strategy == sync::StrategyKind::kLocalSteps) return options.local_steps;
  if (options.strategy == sync::StrategyKind::kParameterServer) return options.parameter_server;
  return sync::options_of(options.strategy);
}

rl::EnvRegistry with_plugins(rl::EnvRegistry environments, const TrainOptions& options) {
  for (const std::filesystem::path& plugin : options.plugins) environments.load_plugin(plugin);
  return environments;
}

rl::EnvRegistry unwrapped_environments_of(const rl::EnvRegistry& environments, const TrainOptions& options) {
  rl::EnvRegistry known = with_plugins(environments, options);
  known.set_options(options.env, env_option_texts(options));
  return known;
}

rl::EnvRegistry environments_of(const rl::EnvRegistry& environments, const TrainOptions& options) {
  rl::EnvRegistry known = unwrapped_environments_of(environments, options);
  known.set_wrappers(options.env, options.env_wrappers);
  return known;
}

std::optional<double> threshold_of(const rl::EnvRegistry& environments, const TrainOptions& options) {
  try {
    const rl::EnvRegistry known = environments_of(environments, options);
    const rl::MultiAgentEntry* several = known.find_multi_agent(options.env);
    return several != nullptr ? several->spec.reward_threshold : known.spec(options.env).reward_threshold;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

rl::EnvOptionTexts option_texts(const std::vector<std::string>& items) {
  rl::EnvOptionTexts texts;
  for (const std::string& item : items) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      throw ConfigError(concat("'", item, "' is no NAME=VALUE, as in gravity=5"));
    texts.emplace_back(item.substr(0, equals), item.substr(equals + 1));
  }
  return texts;
}

rl::PolicyFactory policy_factory(const TrainOptions& options, const PolicySettings& settings) {
  rl::PolicyFactory own = algorithm_of(options).policy_factory(options, settings);
  return own ? own : actor_critic_factory(settings);
}

rl::SeveralAgents several_agents(const TrainOptions& options, const rl::MultiAgentEntry& entry) {
  std::map<std::string, rl::PolicyFactory> makers;
  for (const rl::MappedPolicy& policy : policy_map_of(options, entry))
    makers[policy.name] = policy_factory(options, settings_of_policy(options, policy.name));
  const auto make_policy = [makers = std::move(makers)](const rl::MappedPolicy& policy, at::Generator drawn) {
    return makers.at(policy.name)(policy.spec, std::move(drawn));
  };
  return {.policies = map_options(options.multi_agent), .make_envs = entry.make, .make_policy = make_policy};
}

std::string rows_text(std::int64_t rows, const rl::TrainingRun& run) {
  // Uneven shards make replicas of different sizes, and the quotient is then only their mean.
  const bool is_even = run.shards() % run.replicas() == 0;
  return concat(rows, " rows, ", rows / run.replicas(), is_even ? " a replica" : " a replica on average");
}

std::function<std::unique_ptr<rl::EnvGroup>(int)> env_maker(const RunPlan& plan) {
  if (const auto isolation = isolation_of(plan.options, plan.ranks.size()))
    return isolated_maker(plan.environments, *isolation, workers_of_group(plan.options), plan.restarts);
  const auto make = [environments = plan.environments, id = plan.options.env](int count) {
    return environments.make(id, count);
  };
  // Without a budget of restarts a failure of an environment ends the run.
  if (!plan.restarts) return make;
  return [make, restarts = plan.restarts](int count) {
    return std::make_unique<rl::RestartingEnvs>(make, count, restarts);
  };
}

std::function<std::unique_ptr<rl::MultiAgentGroup>(int)> agents_maker(const RunPlan& plan,
                                                                      const rl::MultiAgentEntry& entry) {
  const auto isolation = isolation_of(plan.options, plan.ranks.size());
  if (!isolation) return entry.make;
  return [spec = entry.spec, workers = workers_of_group(plan.options), isolation = *isolation,
          restarts = plan.restarts](int count) { return rl::python_agents(spec, count, workers, isolation, restarts); };
}

}  // namespace tandem::app
