// learner/learner.h: runs passes of minibatches over a loaded batch, one step of the strategy each.
//
// The learner of RLlib's LocalSyncParallelOptimizer, generalised to shards: one object a replica, each on its replica's
// thread, all doing the same steps.
//
//     learner.batch().load(batch, 256, Tail::kDrop);                       // once a batch
//     for each pass:
//       learner.begin_pass(Order::kShuffled);
//       for (std::int64_t b = 0; b < learner.batch().plan().minibatches; ++b) learner.step(b, loss, 1.0, limits);
//
// Each shard's loss draws its random numbers from a stream of the shard, so the numbers do not depend on which replica
// has the shard.
//
// Threads: single-thread, the replica's. Blocking: step() waits for the other replicas where the strategy does.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/learner/batch_names.h"
#include "tandem/learner/loaded_batch.h"
#include "tandem/model/shard_random.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"

namespace tandem::learner {

/// `run_seed` decides the order of shuffled passes, `rng` where losses draw their random numbers, and `residence` where
/// the batch is kept.
struct LearnerOptions {
  std::uint64_t run_seed = 0;
  model::RngOrder rng = model::RngOrder::kShards;
  Residence residence = Residence::kDevice;
};

/// One step, as this replica saw it. Other replicas have reports of their own; sums over all shards are the program's,
/// by ReplicaTeam's shard_sum.
struct LearnerReport {
  sync::StepReport step;
  double replica_loss = 0;             // weighted mean over this replica's shards
  std::int64_t rows = 0;               // valid rows of this replica's shards
  std::vector<Columns> shard_outputs;  // ShardLoss::outputs of each of this replica's shards; of a LossFunction
};

class Learner {
 public:
  /// Neither `replica` nor `strategy` is owned; both outlive the learner.
  Learner(sync::Replica& replica, sync::Strategy& strategy, const LearnerOptions& options)
      : replica_(replica), strategy_(strategy), options_(options), batch_(replica.placement(), options.residence) {}

  /// The batch of the passes to come; see LoadedBatch.
  [[nodiscard]] LoadedBatch& batch() { return batch_; }

  /// Begins a pass over the loaded batch. Does not wait for other replicas, which begin the same pass by themselves.
  void begin_pass(Order order) { batch_.begin_pass(order, options_.run_seed, passes_++); }

  /// Losses and backward passes of minibatch `minibatch` of every shard, then the strategy's step. Throws RunError
  /// naming the remedy when a shard's forward drew from torch's default generator while there is more than one shard
  /// and rng is kShards, when a loss is no scalar, or when it is not finite: the error names the part of the loss
  /// (LossParts) and the element of the shard's rows that were not finite, or the largest. An error about gradients
  /// that are not finite tells of such an element, too, where this replica has one. `lr_factor` multiplies the learning
  /// rate of this step alone. All replicas make the same steps in the same order; `limits` bound the waits for them.
  LearnerReport step(std::int64_t minibatch, const LossFunction& loss, double lr_factor, const Limits& limits);
  /// A step as above with gradients that `gradients` writes itself, in place of the backward passes. Its report has no
  /// shard_outputs.
  LearnerReport step(std::int64_t minibatch, const GradientFunction& gradients, double lr_factor, const Limits& limits);

  /// Passes begun so far, for checkpoints: the order of rows depends on this number and the run's seed alone.
  [[nodiscard]] std::uint64_t passes() const { return passes_; }
  /// A resumed run sets the number of its checkpoint, and then shuffles as it would have done.
  void set_passes(std::uint64_t passes) { passes_ = passes; }
  /// How errors call the numbers of the batches. Without, by the names of columns and the numbers of rows.
  void name_batch(BatchNames names) { names_ = std::move(names); }
  /// Valid rows of this replica's shards in all steps so far; each pass over a row counts.
  [[nodiscard]] std::int64_t rows_trained() const { return rows_trained_; }
  /// Counts of the gradients that this replica has offered so far.
  [[nodiscard]] const sync::StalenessTotals& staleness() const { return staleness_; }

 private:
  // The loop over the shards that both forms of step() share.
  template <typename Take, typename Pass>
  LearnerReport run_shards(std::int64_t minibatch, double lr_factor, const Limits& limits, const Take& take,
                           const Pass& pass);
  // Throws RunError when the shard's loss drew from the generator that all shards share.
  void require_own_random(const model::ShardRandomScope& random, int shard) const;
  // The strategy's step; its error about gradients gets what the shards' rows say about them.
  [[nodiscard]] sync::StepReport step_strategy(std::int64_t minibatch, double lr_factor, const Limits& limits);
  // Hands the shard's gradients and loss to the strategy.
  void close_shard(int shard, std::int64_t minibatch, const WrittenLoss& loss);

  sync::Replica& replica_;
  sync::Strategy& strategy_;
  const LearnerOptions options_;
  LoadedBatch batch_;
  BatchNames names_;
  // The counts go on over batches; nothing resets them.
  std::uint64_t passes_ = 0;
  std::int64_t rows_trained_ = 0;
  sync::StalenessTotals staleness_;
};

}  // namespace tandem::learner
