// Small runs of SAC, TD3 and DQN for tests: four environments, sixteen rows a step, networks of sixteen units.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/algo/dqn/dqn.h"
#include "tandem/rl/algo/off_policy/off_policy_run.h"
#include "tandem/rl/algo/sac/discrete_sac.h"
#include "tandem/rl/algo/sac/sac.h"
#include "tandem/rl/algo/td3/td3.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::rl::testing {

/// The numbers that tests vary. DQN, whose actions are choices, has CartPole where nothing is said.
struct SmallOffPolicy {
  std::string env = "Pendulum-v1";
  int shards = 4;
  int replicas = 1;
  // One hidden layer keeps a step far below a millisecond, by autograd, too.
  NetworkOptions networks = {.hidden = {16}};
};

/// A setup that lacks its algorithm. The replay is small enough that a few updates overwrite it, and learning starts
/// within the first one.
inline OffPolicySetup small_off_policy(const SmallOffPolicy& run, OffPolicyOptions options) {
  options.num_envs = 4;
  options.rollout_steps = 16;
  options.batch_size = 16;
  options.replay_size = 400;
  options.learning_starts = 40;
  OffPolicySetup setup;
  setup.seed = 3;
  setup.total_steps = 4000;
  setup.shards = run.shards;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(run.replicas), c10::Device(c10::kCPU));
  setup.make_envs = [env = run.env](int count) { return EnvRegistry::native().make(env, count); };
  setup.off_policy = std::move(options);
  return setup;
}

/// The algorithm's own parts of a setup. `Agent` is made of a `Policy`, which is made of what `make` returns.
template <typename Agent, typename Policy, typename Options, typename Make>
OffPolicySetup with_agent(OffPolicySetup setup, const NetworkOptions& networks, const Options& options,
                          const Make& make) {
  setup.learning_rate = options.learning_rate;
  setup.make_policy = make;
  setup.set_optimizers = [options](learner::TeamOptions& team) { Agent::set_optimizers(options, team); };
  setup.make_agent = [options, networks](learner::Member member, ActorCritic& policy) {
    return std::make_unique<Agent>(std::move(member), dynamic_cast<Policy&>(policy), networks, options,
                                   detect_instruction_set());
  };
  return setup;
}

/// SAC, TD3 and DQN with options of the test's own; counts are those of small_off_policy().
inline OffPolicySetup small_sac(const SmallOffPolicy& run, const SacOptions& options = {}) {
  return with_agent<Sac, SacPolicy>(small_off_policy(run, options), run.networks, options,
                                    [options, networks = run.networks](const Spec& spec, at::Generator generator) {
                                      return std::make_shared<SacPolicy>(spec, networks, options.critics,
                                                                         options.first_temperature(),
                                                                         std::move(generator));
                                    });
}

inline OffPolicySetup small_discrete_sac(SmallOffPolicy run, const SacOptions& options = {}) {
  if (run.env == "Pendulum-v1") run.env = "CartPole-v1";
  return with_agent<DiscreteSac, DiscreteSacPolicy>(
      small_off_policy(run, options), run.networks, options,
      [options, networks = run.networks](const Spec& spec, at::Generator generator) {
        return std::make_shared<DiscreteSacPolicy>(spec, networks, options.critics, options.first_temperature(),
                                                   std::move(generator));
      });
}

inline OffPolicySetup small_td3(const SmallOffPolicy& run, const Td3Options& options = {}) {
  return with_agent<Td3, Td3Policy>(small_off_policy(run, options), run.networks, options,
                                    [options, networks = run.networks](const Spec& spec, at::Generator generator) {
                                      return std::make_shared<Td3Policy>(spec, networks, options.critics,
                                                                         options.exploration_noise,
                                                                         std::move(generator));
                                    });
}

inline OffPolicySetup small_dqn(SmallOffPolicy run, const DqnOptions& options = {}) {
  if (run.env == "Pendulum-v1") run.env = "CartPole-v1";
  return with_agent<Dqn, DqnPolicy>(small_off_policy(run, options), run.networks, options,
                                    [options, networks = run.networks](const Spec& spec, at::Generator generator) {
                                      return std::make_shared<DqnPolicy>(spec, networks, options, std::move(generator));
                                    });
}

/// Makes the run, `updates` updates of it, and hashes its state.
inline std::string off_policy_state_after(OffPolicySetup setup, int updates) {
  OffPolicyRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

}  // namespace tandem::rl::testing
