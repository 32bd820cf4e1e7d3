// A small run of IMPALA or APPO for tests: CartPole without velocities, two workers with eight environments each,
// batches of 16 steps, five to an update, inline.
#pragma once
#include <cstddef>
#include <vector>

#include "tandem/rl/algo/impala/impala_learner.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl::testing {

struct SmallImpala {
  bool appo = false;       // which makes two passes
  bool remembers = false;  // with an LSTM
  int shards = 4;
  int replicas = 1;  // of a rank
  sync::StrategyOptions strategy = {};
};

inline ImpalaSetup small_impala(const SmallImpala& run) {
  ImpalaSetup setup;
  setup.seed = 3;
  setup.shards = run.shards;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(run.replicas), c10::Device(c10::kCPU));
  setup.impala.num_envs = 16;
  setup.impala.rollout_steps = 16;
  setup.impala.execution = ImpalaExecution::kInline;
  setup.impala.batches_per_update = 5;
  if (run.appo) {
    setup.appo = AppoOptions{.target_update_steps = 3};
    setup.impala.passes = 2;
  }
  setup.strategy = run.strategy;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("MaskedCartPole-v1", count); };
  setup.make_policy = mlp_policy_factory({.hidden = {16}});
  if (run.remembers) {
    setup.impala.sequence_length = 5;
    setup.make_policy = recurrent_policy_factory({.mlp = {.hidden = {16}}, .cell = CellKind::kLstm, .size = 8});
  }
  return setup;
}

}  // namespace tandem::rl::testing
