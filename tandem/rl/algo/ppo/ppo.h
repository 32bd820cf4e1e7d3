// rl/algo/ppo/ppo.h: one update of proximal policy optimisation, as one replica does it.
//
// Every replica has such an object for its shards, on its own thread; all of them do the same steps, and whatever is a
// statistic of the batch (advantage moments, KL, losses) is summed over all shards of the run along the fixed tree.
//
// The algorithm is that of Schulman et al., "Proximal Policy Optimization Algorithms" (2017): the clipped surrogate
// with a clipped value loss and an entropy bonus (ppo_loss.h), learned from in several passes over one rollout.
//
// Threads: single-thread, the replica's; phase() from any. Blocking: update() waits for the other replicas in every
// minibatch, for `patience` at most. Errors: DeadlineExceeded when that is over, and what the loss and the strategy
// throw.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "tandem/learner/replica_team.h"
#include "tandem/rl/algo/gradient_way.h"
#include "tandem/rl/algo/ppo/ppo_loss.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

/// Created once per replica and policy. The fragments that it learns from belong to the env groups.
class Ppo {
 public:
  /// `member` and `policy` (the member's module) are not owned. Throws ConfigError when this processor does not have
  /// `set`, which counts for FusedPpo.
  Ppo(learner::Member member, ActorCritic& policy, const PpoOptions& options, InstructionSet set);

  /// See TrainingRun.
  [[nodiscard]] const std::string& gradients_by() const { return gradients_.sentence; }

  /// Learns from one fragment a shard of this replica. `progress`: share of the run that is done, for schedules.
  LearnReport update(std::span<Fragment* const> fragments, double progress, Clock::duration patience);
  /// The sums over rows that the last update() learned with: one entry for each shard of the replica.
  [[nodiscard]] std::span<const PpoSums> sums() const { return sums_; }

  /// The weight of the divergence in the next update. Changes with each where it is adapted, so checkpoints keep it.
  /// Without kl_coef_target it stays at PpoOptions::kl_coef.
  [[nodiscard]] double kl_coef() const { return now_.kl_coef; }
  void set_kl_coef(double kl_coef) { now_.kl_coef = kl_coef; }

  /// Says what this replica does now, for TrainingRun::phase(). update() says it of learning, the caller of sampling.
  /// Any thread may look.
  void at(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  [[nodiscard]] Phase phase() const { return phase_.load(std::memory_order_relaxed); }

 private:
  // The parts of update(), in their order; ppo.cc says the plan.
  void load(std::span<Fragment* const> fragments);
  void normalize_over_batch(std::span<Fragment* const> fragments);
  void normalize_over_minibatches();
  void append_advantages(std::size_t local, std::int64_t minibatch, std::vector<double>& numbers);
  learner::LearnerReport step(std::int64_t minibatch, double lr_factor, Clock::duration patience);
  learner::WrittenLoss replay(const learner::ShardRows& rows, const PpoMinibatch& shared, PpoSums& sums);
  bool run_pass(Clock::duration patience, double lr_factor, LearnReport& report);
  template <typename Write>
  [[nodiscard]] std::span<const double> sum(std::size_t shards, const Write& write);
  [[nodiscard]] PpoSums sum_over_run(std::span<const PpoSums> shards);
  [[nodiscard]] double explained_variance(std::span<Fragment* const> fragments);
  void finish(LearnReport& report);

  const learner::Member member_;
  ActorCritic& policy_;
  const PpoOptions options_;
  // options_ with the scheduled and adapted weights of the present update.
  PpoOptions now_;
  const GradientChoice gradients_;
  // At most one of the next two is set, by gradients_.way.
  std::unique_ptr<FusedPpo<float>> fused_;
  std::unique_ptr<learner::ReplayedLoss> replayed_;  // likewise
  // By minibatch of the pass.
  std::vector<PpoMinibatch> minibatches_;
  // By shard, over all minibatches of the update.
  std::vector<PpoSums> sums_;
  // By shard, over the present minibatch.
  std::vector<PpoSums> minibatch_sums_;
  // Environments of a shard where row r of its columns is step r / environments; else 0.
  std::int64_t fragment_envs_ = 0;
  // By shard: the columns that are loaded.
  std::vector<learner::Batch> batches_;
  // Memory of what sum() takes: by shard, not by replica, so that sums have the same bits on any number of replicas.
  std::vector<std::vector<double>> numbers_;
  // Time that this update spent in sums over all shards, waits included.
  double sum_seconds_ = 0;
  std::atomic<Phase> phase_{Phase::kWait};
};

}  // namespace tandem::rl
