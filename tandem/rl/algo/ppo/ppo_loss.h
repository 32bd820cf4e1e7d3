// rl/algo/ppo/ppo_loss.h: the clipped surrogate objective: by tensor operations, and by fused kernels for MLP policies
// and recurrent ones.
//
// Schulman et al., "Proximal policy optimization algorithms" (2017), equation 7, with the value loss and entropy bonus
// of equation 9:
//     r      = exp(log pi(a|s) - log pi_old(a|s))
//     policy = -mean(min(r * A, clip(r, 1 - c, 1 + c) * A))
//     value  = mean((V - R)^2), or the larger of that and the same with V kept within clip_range_value of the old value
//     loss   = policy + value_coef * value - entropy_coef * mean(entropy) + kl_coef * mean(r - 1 - log r)
//
// The last term is the penalty of section 4: over actions that the old policy drew, its mean is KL(old || new), and the
// mean of its gradient is that one's gradient, for any distribution (Schulman, "Approximating KL divergence", 2020).
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <span>

#include "tandem/learner/loaded_batch.h"
#include "tandem/learner/replayed_loss.h"
#include "tandem/rl/algo/fused_block.h"
#include "tandem/rl/algo/fused_sequences.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/algo/ppo/ppo_rows.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// Numbers of one minibatch that are the same for all shards.
/// Advantage moments are those of the minibatch in all shards, so each shard must be told them.
struct PpoMinibatch {
  double clip_range = 0.2;
  // The loss uses A = (advantage - mean) * scale.
  double advantage_mean = 0, advantage_scale = 1;
};

/// Sums over rows of one shard, and the number of rows: the update's means are the sums over everything, divided by it.
/// Shards with different numbers of rows can so be added.
struct PpoSums : Losses {
  double rows = 0;
  void add(const PpoSums& other) {
    *this += other;
    rows += other.rows;
  }
};

/// Returns the loss of one shard's rows, whose columns are those of take_columns(). Adds the shard's sums to `sums`.
[[nodiscard]] learner::ShardLoss ppo_loss(ActorCritic& policy, const learner::ShardBatch& batch,
                                          const PpoOptions& options, const PpoMinibatch& minibatch, PpoSums& sums);

/// ppo_loss() in one pass over the rows, as one operation of autograd instead of some sixty, for a policy of float32 on
/// the CPU, whose gradients stay autograd's. The numbers are those of ppo_loss() to rounding. Throws InvariantError for
/// another policy.
[[nodiscard]] learner::ShardLoss ppo_loss_in_one_pass(ActorCritic& policy, const learner::ShardBatch& batch,
                                                      const PpoOptions& options, const PpoMinibatch& minibatch,
                                                      PpoSums& sums);

/// Returns the loss for a learner::ReplayedLoss: with `constants` in place of what changes from step to step, the means
/// in place of sums, and nothing read on the host. Whether there is a penalty for KL, `options` say. Policies whose
/// entropy is an estimate draw random numbers, and are not for this.
[[nodiscard]] learner::DeviceLoss ppo_loss_on_device(ActorCritic& policy, const learner::ShardBatch& batch,
                                                     const PpoOptions& options, const at::Tensor& constants);
/// Advantage mean and scale, 1 - clip, 1 + clip, clip, entropy_coef, kl_coef, in the order in which it reads them.
using PpoConstants = std::array<double, 7>;
[[nodiscard]] PpoConstants ppo_constants(const PpoOptions& options, const PpoMinibatch& minibatch);
/// The sums over `rows` rows of DeviceLoss::numbers.
[[nodiscard]] PpoSums ppo_sums_of(double rows, std::span<const double> means);

/// The loss of an MlpPolicy or a RecurrentPolicy and the gradients of all its parameters, without autograd, a block of
/// samples (fused_block.h) or of sequences (fused_sequences.h) at a time: forward, loss, backward. ppo_loss() with
/// autograd is the definition; this gives the same numbers to rounding, in a fraction of the time for small networks.
/// The bits depend on the rows, in their order, the parameters and the instruction set alone. `Real`: of the parameters
/// and of the columns, but for observations. Single-thread, the replica's. The policy is not owned and must outlive it.
template <typename Real>
class FusedPpo {
 public:
  /// why_not_fused() must be silent about the policy, but for its dtype; a policy that remembers has float32 alone.
  /// Throws ConfigError when this processor does not have `set`, and as require_compute().
  FusedPpo(const ActorCritic& policy, InstructionSet set, Compute compute = Compute::kFloat32);

  /// The loss of one shard's rows, which are those of take_columns(); a GradientFunction but for its other arguments,
  /// which are as ppo_loss()'s. Throws EnvError for an observation that is out of the spec's bounds.
  /// The weight of the result is the number of rows that are learned from; without rows it is 0 and nothing is written.
  learner::WrittenLoss run(const learner::ShardRows& rows, const PpoOptions& options, const PpoMinibatch& minibatch,
                           PpoSums& sums);

 private:
  // Finds the sequences among the rows; returns how many rows are learned from.
  double place_sequences(const learner::ShardRows& rows, const SequenceOptions& options);

  // One of the two.
  std::optional<FusedBlock<Real>> block_;
  std::optional<FusedSequences<Real>> sequences_;
  PpoRows columns_;
  SequencePlaces places_;
};

extern template class FusedPpo<float>;
extern template class FusedPpo<double>;

}  // namespace tandem::rl
