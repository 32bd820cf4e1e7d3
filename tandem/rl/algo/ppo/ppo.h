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
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "tandem/learner/replica_team.h"
#include "tandem/rl/algo/gradient_way.h"
#include "tandem/rl/algo/ppo/fused_ppo.h"
#include "tandem/rl/algo/ppo/ppo_loss.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

class Ppo {
 public:
  /// `member` and `policy` (the member's module) are not owned. Throws ConfigError when this processor does not have
  /// `set`, which counts for fused_ppo.h.
  Ppo(learner::Member member, ActorCritic& policy, const PpoOptions& options, InstructionSet set);

  /// See TrainingRun.
  [[nodiscard]] const std::string& gradients_by() const { return gradients_.sentence; }

  /// Learns from one fragment a shard of this replica. `progress`: share of the run that is done, for schedules.
  LearnReport update(std::span<Fragment* const> fragments, double progress, Clock::duration patience);
  /// What was learned in the last update(): one entry for each shard of the replica.
  [[nodiscard]] std::span<const PpoSums> sums() const { return sums_; }

  /// The weight of the divergence in the next update. Changes with each where it is adapted, so checkpoints keep it.
  [[nodiscard]] double kl_coef() const { return now_.kl_coef; }
  void set_kl_coef(double kl_coef) { now_.kl_coef = kl_coef; }

  /// Says what this replica does now, for TrainingRun::phase(). update() says it of learning, the caller of sampling.
  /// Any thread may look.
  void at(Phase phase) { phase_.store(phase, std::memory_order_relaxed); }
  [[nodiscard]] Phase phase() const { return phase_.load(std::memory_order_relaxed); }

 private:
  using ShardNumbers = std::vector<std::vector<double>>;  // one vector a shard of this replica
  using PowerSums = std::array<double, 3>;                // count, sum, sum of squares

  void load(std::span<Fragment* const> fragments);
  void normalize_over_batch(std::span<Fragment* const> fragments);
  void normalize_over_minibatches();
  [[nodiscard]] PowerSums advantage_sums(int shard, std::int64_t minibatch);
  learner::LearnerReport step(std::int64_t minibatch, double lr_factor, Clock::duration patience);
  learner::WrittenLoss replay(const learner::ShardRows& rows, const PpoMinibatch& shared, PpoSums& sums);
  bool run_pass(Clock::duration patience, double lr_factor, LearnReport& report);
  bool kl_exceeded();
  [[nodiscard]] ShardNumbers& no_numbers(std::size_t shards);
  [[nodiscard]] const std::vector<double>& sum(std::span<const std::vector<double>> shards);
  [[nodiscard]] double explained_variance(std::span<Fragment* const> fragments);
  void finish(LearnReport& report);

  const learner::Member member_;
  ActorCritic& policy_;
  const PpoOptions options_;
  PpoOptions now_;  // options_ with the scheduled and adapted weights of the present update
  const GradientChoice gradients_;
  std::unique_ptr<FusedPpo<float>> fused_;           // of GradientWay::kFused, or null
  std::unique_ptr<learner::ReplayedLoss> replayed_;  // likewise
  std::vector<PpoMinibatch> minibatches_;            // of the pass
  std::vector<PpoSums> sums_;                        // of the update, a shard each
  std::vector<PpoSums> minibatch_sums_;              // of the minibatch, a shard each
  std::vector<learner::Batch> batches_;              // what is loaded, a shard each
  ShardNumbers numbers_;                             // memory of what sum() takes
  double sum_seconds_ = 0;                           // of statistics over all shards, in this update
  std::atomic<Phase> phase_{Phase::kWait};
};

}  // namespace tandem::rl
