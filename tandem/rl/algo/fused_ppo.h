// rl/algo/fused_ppo.h: the PPO loss of an MlpPolicy and the gradients of all its parameters, without autograd.
//
// A block of samples at a time: gather, forward, loss, backward (mlp_gradient.h, action_gradient.h). ppo_loss() with
// autograd is the definition; this gives the same numbers to rounding, in a fraction of the time for small networks.
// The bits depend on the rows, in their order, the parameters and the instruction set alone.
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <string>
#include <vector>

#include "tandem/learner/loss.h"
#include "tandem/rl/algo/ppo_columns.h"
#include "tandem/rl/algo/ppo_loss.h"
#include "tandem/rl/policy/action_gradient.h"
#include "tandem/rl/policy/mlp_gradient.h"

namespace tandem::rl {

/// Why FusedPpo<float> cannot stand for ppo_loss(), in a clause; empty when it can: an MlpPolicy of float32 on the CPU,
/// nothing of it frozen, with categorical, multi-categorical or normal actions.
[[nodiscard]] std::string why_not_fused(const ActorCritic& policy);

/// `Real`: of the parameters and of the columns, but for observations.
template <typename Real>
class FusedPpo {
 public:
  /// Throws ConfigError when this processor does not have `set`.
  FusedPpo(const MlpPolicy& policy, InstructionSet set);

  /// The loss of one shard's rows, which are those of ppo_columns(); a GradientFunction but for its other arguments,
  /// which are as ppo_loss()'s. Throws EnvError for an observation that is out of the spec's bounds.
  learner::WrittenLoss run(const learner::ShardRows& rows, const PpoOptions& options, const PpoMinibatch& minibatch,
                           PpoSums& sums);

 private:
  void require_leaves(const Observation& observation) const;
  void gather(const PpoRows& columns, const learner::ShardRows& rows, std::int64_t first, std::int64_t samples);
  void gather_features(const PpoRows& columns, std::int64_t row, Real* features);
  void differentiate(const PpoOptions& options, const PpoMinibatch& minibatch, std::int64_t samples, PpoSums& sums);

  const MlpPolicy& policy_;
  MlpGradient<Real> network_;
  ActionGradient<Real> actions_;
  std::vector<std::size_t> leaf_bytes_;   // of a row, by leaf of the observation
  std::vector<const std::byte*> leaves_;  // of one row
  std::vector<float> features_;           // of one row, where Real is another type
  // Of the block's samples.
  Real old_log_prob_[kBlock] = {}, old_value_[kBlock] = {}, advantage_[kBlock] = {}, value_target_[kBlock] = {};
  Real of_log_prob_[kBlock] = {}, of_entropy_[kBlock] = {};
};

extern template class FusedPpo<float>;
extern template class FusedPpo<double>;

}  // namespace tandem::rl
