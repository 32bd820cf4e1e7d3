// rl/algo/ppo/fused_ppo.h: the PPO loss of an MlpPolicy and the gradients of all its parameters, without autograd.
//
// A block of samples at a time (fused_block.h): forward, loss, backward. ppo_loss() with autograd is the definition;
// this gives the same numbers to rounding, in a fraction of the time for small networks. The bits depend on the rows,
// in their order, the parameters and the instruction set alone.
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it.
#pragma once
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/fused_block.h"
#include "tandem/rl/algo/ppo/ppo_loss.h"
#include "tandem/rl/algo/ppo/ppo_rows.h"

namespace tandem::rl {

/// `Real`: of the parameters and of the columns, but for observations.
template <typename Real>
class FusedPpo {
 public:
  /// Throws ConfigError when this processor does not have `set`.
  FusedPpo(const MlpPolicy& policy, InstructionSet set) : block_(policy, set) {}

  /// The loss of one shard's rows, which are those of take_columns(); a GradientFunction but for its other arguments,
  /// which are as ppo_loss()'s. Throws EnvError for an observation that is out of the spec's bounds.
  /// The weight of the result is the number of rows; without rows it is 0 and nothing is written.
  learner::WrittenLoss run(const learner::ShardRows& rows, const PpoOptions& options, const PpoMinibatch& minibatch,
                           PpoSums& sums);

 private:
  FusedBlock<Real> block_;
  PpoRows columns_;
};

extern template class FusedPpo<float>;
extern template class FusedPpo<double>;

}  // namespace tandem::rl
