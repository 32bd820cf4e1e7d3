// rl/algo/testing/recurrent_ppo.h: a small PPO run of a policy that remembers: four shards of two environments.
#pragma once
#include <c10/core/Device.h>

#include <cstddef>
#include <vector>

#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl::testing {

inline PpoSetup recurrent_ppo(const SequenceOptions& sequences, int replicas = 1, CellKind cell = CellKind::kLstm) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = 4;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 32;
  setup.ppo.epochs = 2;
  setup.ppo.minibatches = 2;
  setup.ppo.sequences = sequences;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("MaskedCartPole-v1", count); };
  setup.make_policy = recurrent_policy_factory({.mlp = {.hidden = {16}}, .cell = cell, .size = 8});
  return setup;
}

}  // namespace tandem::rl::testing
