#include "tandem/app/train/build_run.h"

#include <utility>

#include "tandem/device/device_set.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::app {
namespace {

sync::StrategyOptions strategy_options(const TrainOptions& options) {
  if (options.strategy != sync::StrategyKind::kAsynchronous) return sync::options_of(options.strategy, options.servers);
  const AsynchronousSettings& settings = options.asynchronous;
  sync::AsynchronousOptions asynchronous{.mean = {}, .scaling = settings.scaling, .bound = {}};
  if (settings.wait_for_slower) asynchronous.bound = sync::WaitForSlower{.steps = *settings.wait_for_slower};
  if (settings.drop_staler) asynchronous.bound = sync::DropStaler{.updates = *settings.drop_staler};
  return asynchronous;
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
                               .value_gain = settings.value_gain};
  if (settings.head) options.family = rl::action_family(*settings.head);
  return rl::mlp_policy_factory(std::move(options));
}

rl::NormalizerOptions normalizer_options(const NormalizeSettings& settings) {
  return {.observations = settings.observations,
          .rewards = settings.rewards,
          .clip_observation = settings.clip_observation,
          .clip_reward = settings.clip_reward};
}

rl::PpoSetup make_setup(const TrainOptions& options, const rl::EnvRegistry& environments, const learner::Ranks& ranks) {
  rl::PpoSetup setup;
  setup.ranks = ranks;
  setup.seed = static_cast<std::uint64_t>(options.seed);
  setup.total_steps = options.total_steps;
  setup.devices = device::parse_device_set(options.devices);
  setup.shards = static_cast<int>(options.shards.value_or(static_cast<std::int64_t>(setup.devices.size())));
  setup.strategy = strategy_options(options);
  setup.ppo = options.ppo;
  setup.normalizer = normalizer_options(options.normalize);
  setup.actor.noise_hold_steps = static_cast<int>(options.policy.sde_sample_freq);
  setup.rng = options.rng == Rng::kShards ? model::RngOrder::kShards : model::RngOrder::kUnordered;
  setup.make_envs = [environments, id = options.env](int count) { return environments.make(id, count); };
  setup.make_policy = policy_factory(options.policy);
  return setup;
}

}  // namespace tandem::app
