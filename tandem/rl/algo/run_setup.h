// rl/algo/run_setup.h: what a run of any algorithm is made of.
//
// Threads: plain values. The factories are called on the thread that builds the run, one call at a time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/device/cuda_kernels.h"
#include "tandem/learner/replica_team.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/policy_map.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/remarks.h"

namespace tandem::rl {

/// Makes a policy of the run by its name; as PolicyFactory.
/// Must give the same parameters for the same generator: each replica and rollout worker gets a module of its own.
using NamedPolicyFactory = std::function<std::shared_ptr<ActorCritic>(const MappedPolicy& policy, at::Generator)>;

/// Environments with several agents, and who makes the policies.
struct SeveralAgents {
  PolicyMapOptions policies;
  std::function<std::unique_ptr<MultiAgentGroup>(int count)> make_envs;
  NamedPolicyFactory make_policy;
};

/// Exactly one of `agents` and the pair make_envs and make_policy is used. All ranks must have the same values but for
/// `devices` and `ranks`.
struct RunSetup {
  std::uint64_t seed = 0;
  std::int64_t total_steps = 100'000;  // environment steps over all environments; what schedules run over
  // A batch is divided into so many shards of whole environments, which the replicas of all ranks share. Runs with the
  // same shards have the same numbers, whatever the replicas.
  int shards = 1;
  std::vector<c10::Device> devices{c10::Device(c10::kCPU)};  // of this rank, one replica each
  learner::Ranks ranks;
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
  /// What the run's sampling notices, for TrainingRun::take_remarks().
  std::shared_ptr<Remarks> remarks = std::make_shared<Remarks>();
};

}  // namespace tandem::rl
