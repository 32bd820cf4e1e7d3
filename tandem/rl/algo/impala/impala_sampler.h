// rl/algo/impala/impala_sampler.h: one rollout worker: its env groups and its copies of the policies. Before each batch
// the trained policies take the learners' newest weights, with the normalizers that belong to them.
//
// Threads: single-thread, the rollout worker's; constructed, saved and loaded by others while the worker rests.
#pragma once
#include <memory>
#include <vector>

#include "tandem/learner/state_parts.h"
#include "tandem/pipeline/published.h"
#include "tandem/rl/algo/impala/weights.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/alternating_rollout.h"
#include "tandem/rl/rollout/multi_agent_worker.h"

namespace tandem::rl {

/// The weights and normalizers that a batch is collected with.
/// Weights and normalizers are published together, since a policy is only right with the observations that it was
/// trained on.
struct Behaviour {
  std::vector<Weights> weights;  // of the trained policies
  Normalizers normalizers;
};

/// A slot of the queue between rollout workers and loaders: memory that is made once, into which environments and
/// policies write. Whoever holds the slot's lease has it alone. Either parts or decisions are used.
struct QueuedBatch {
  std::vector<Fragment> parts;  // of one agent, by env group of the worker: this rank's shards, of each its splits
  std::vector<std::vector<std::unique_ptr<DecisionFragment>>> decisions;  // by shard of this rank, by trained policy
  std::vector<double> results;  // of the groups, as append_results() writes them
};

/// A worker's env groups on this rank, of environments with one agent or with several.
/// Exactly one of the two is used.
struct SampledEnvs {
  std::unique_ptr<AlternatingRollout> of_one;
  std::vector<std::unique_ptr<MultiAgentWorker>> of_several;  // where of_one is null
};

/// The groups' actors hold references to the sampler's policies, so the policies come before the groups and outlive
/// them.
class ImpalaSampler {
 public:
  /// `policies`: on the CPU, by policy; the groups' actors act with them. `trained`: by policy, whether it takes
  /// weights. `normalizers`: of the run, for their memory.
  ImpalaSampler(std::vector<std::shared_ptr<ActorCritic>> policies, const std::vector<bool>& trained, SampledEnvs envs,
                const Normalizers& normalizers);

  /// Memory for a batch.
  [[nodiscard]] QueuedBatch make_slot() const;
  /// Collects a batch with the newest behaviour, and returns its version. Throws EnvError.
  std::int64_t collect(pipeline::Published<Behaviour>& newest, QueuedBatch& into);
  /// The next batch takes the newest behaviour, even if its version is that of the last batch.
  void forget() { version_ = -1; }

  [[nodiscard]] ActorCritic& policy(std::size_t policy) { return *policies_[policy]; }
  /// Saves and loads the groups, which are numbered from `first` in the run; see save_groups() and load_groups().
  void save(int first, learner::StateParts& parts) const;
  RolloutWorker::Resumed load(const learner::StateParts& parts, int first, std::uint64_t seed_of_new_episodes) const;

 private:
  const std::vector<std::shared_ptr<ActorCritic>> policies_;
  const SampledEnvs envs_;
  std::vector<Weights> weights_;  // of the trained policies, alive
  Normalizers normalizers_;
  // The version that the policies have now; -1 takes any. Copying is skipped when nothing newer was published.
  std::int64_t version_ = -1;
};

}  // namespace tandem::rl
