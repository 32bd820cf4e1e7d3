// Runs of which the policy lies on the first CUDA device.
#pragma once
#include "tandem/device/device_set.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/algo/testing/small_impala.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

inline PpoSetup cuda_cartpole(LossKernel kernel) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 100'000;
  setup.shards = 2;
  setup.devices = device::parse_device_set("cuda:0");
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 128;
  setup.ppo.kernel = kernel;
  setup.ppo.learning_rate = 2.5e-4;
  setup.ppo.learning_rate_schedule = Schedule::kLinear;
  setup.ppo.entropy_coef = 0.01;
  setup.ppo.entropy_coef_schedule = Schedule::kLinear;  // a number that a recording has to be told
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = mlp_policy_factory({});
  return setup;
}

inline ImpalaSetup cuda_impala(bool appo, LossKernel kernel) {
  ImpalaSetup setup = testing::small_impala({.appo = appo, .shards = 2});
  setup.devices = device::parse_device_set("cuda:0");
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.impala.kernel = kernel;
  return setup;
}

}  // namespace tandem::rl
