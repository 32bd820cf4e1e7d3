// rl/algo/impala/impala_setup.h: everything that a run of IMPALA or APPO is made of. ImpalaRun checks it.
//
// Threads: a plain value. Factories are called by the constructor of ImpalaRun alone, on its thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/device/cuda_kernels.h"
#include "tandem/learner/ranks.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/shard_random.h"
#include "tandem/rl/algo/impala/impala_options.h"
#include "tandem/rl/algo/several_agents.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/normalizer.h"

namespace tandem::rl {

/// Exactly one of `agents` and the pair make_envs and make_policy is used. All ranks must have the same values but for
/// `devices` and `ranks`.
struct ImpalaSetup {
  std::uint64_t seed = 0;
  std::int64_t total_steps = 100'000;  // environment steps over all environments; what schedules run over
  // A batch is divided into so many shards of whole environments, which the replicas of all ranks share. Runs with the
  // same shards have the same numbers, whatever the replicas.
  int shards = 1;
  std::vector<c10::Device> devices{c10::Device(c10::kCPU)};  // of this rank's learner, one replica each
  learner::Ranks ranks;
  ImpalaOptions impala;
  std::optional<AppoOptions> appo;  // none: IMPALA
  NormalizerOptions normalizer;
  ActorOptions actor;
  model::RngOrder rng = model::RngOrder::kShards;
  device::CudaKernels cuda_kernels = device::CudaKernels::kDeterministic;
  sync::StrategyOptions strategy;  // but for its mean
  sync::GradientCheck gradient_check = sync::GradientCheck::kSum;
  /// Makes a group of `count` environments. It is called several times, first with 1 to read the spec.
  std::function<std::unique_ptr<EnvGroup>(int count)> make_envs;
  PolicyFactory make_policy;
  std::optional<SeveralAgents> agents;  // of environments with several, in place of the two above
};

}  // namespace tandem::rl
