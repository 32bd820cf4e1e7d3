// rl/algo/fused_block.h: rows of a batch through an MlpPolicy and back without autograd, a block of samples at a time:
// the network and the actions that were taken (mlp_gradient.h), and how rows come to them.
//
//     block.begin(rows);
//     block.differentiate(count, row_of, [&](std::int64_t row, const BlockSample& now) {
//       return BlockSlopes{...};  // the derivatives of the loss with respect to the numbers of `now`
//     });
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <algorithm>
#include <string>

#include "tandem/rl/algo/fused_rows.h"
#include "tandem/rl/policy/kernels/choice_divergence.h"

namespace tandem::rl {

/// Why FusedBlock<float> or FusedSequences<float> cannot stand for `policy` and autograd, in a clause; empty when one
/// can: an MlpPolicy, or a RecurrentPolicy without a torso and with categorical, multi-categorical or normal actions;
/// of float32 on the CPU, nothing of it frozen. Looks at the policy as it is now: freezing a parameter or moving the
/// policy later makes the answer stale.
[[nodiscard]] std::string why_not_fused(const ActorCritic& policy);

/// `Real`: of the parameters and of the columns, but for observations.
template <typename Real>
class FusedBlock {
 public:
  /// Throws ConfigError when this processor does not have `set`, and as require_compute().
  FusedBlock(const MlpPolicy& policy, InstructionSet set, Compute compute = Compute::kFloat32);

  /// Takes the parameters as they are now, and the rows that are meant, as FusedRows::begin(); gradients begin at zero.
  void begin(const ActedRows& rows);
  /// Makes row `row` sample `i` of the next block, with its action, or its observation alone. `draw`: which of
  /// differentiate()'s draws the estimate of its entropy has, where it is an estimate; without one, entropy() is not
  /// it. Throw EnvError for an observation that is out of the spec's bounds.
  void take(std::int64_t i, std::int64_t row, std::int64_t draw = ActionGradient<Real>::kNoDraw);
  void take_observation(std::int64_t i, std::int64_t row);
  /// The first `samples` of the block: all of value(), log_prob() and entropy(), or value() alone.
  void forward(std::int64_t samples);
  void forward_values(std::int64_t samples) { network_.forward(samples); }
  /// The distribution of sample `i` after forward(): as ChoiceDivergence takes it, head_size numbers.
  void describe(std::int64_t i, Real* to);
  /// Has samples diverge from distributions by row, [rows, head_size], of discrete actions; null: from none. They live
  /// until the last take().
  void refer_to(const Real* distributions) { reference_ = distributions; }

  [[nodiscard]] const Real* log_prob() const { return actions_.log_prob(); }  // [kBlock], of the actions taken
  [[nodiscard]] const Real* entropy() const { return actions_.entropy(); }    // [kBlock]
  [[nodiscard]] Real* value() { return network_.value(); }                    // [kBlock]

  /// Goes forward and backward over `count` rows, row_of(0) to row_of(count - 1), a block at a time while their
  /// activations are in the cache, and overwrites the .grad of all parameters with the sums. slopes_of(row, sample) is
  /// called for each row in this order. Entropies that are estimates take their draws from model::current_generator().
  template <typename RowOf, typename SlopesOf>
  void differentiate(std::int64_t count, const RowOf& row_of, const SlopesOf& slopes_of) {
    actions_.draw(count);
    for (std::int64_t first = 0; first < count; first += kBlock) {
      const std::int64_t samples = std::min(kBlock, count - first);
      for (std::int64_t i = 0; i < samples; ++i) take(i, row_of(first + i), first + i);
      forward(samples);
      for (std::int64_t i = 0; i < samples; ++i) {
        const BlockSlopes slopes = slopes_of(
            row_of(first + i), BlockSample{log_prob()[i], entropy()[i], value()[i], divergence_.divergence()[i]});
        of_log_prob_[i] = static_cast<Real>(slopes.log_prob);
        of_entropy_[i] = static_cast<Real>(slopes.entropy);
        of_divergence_[i] = static_cast<Real>(slopes.divergence);
        value()[i] = static_cast<Real>(slopes.value);
      }
      backward(samples);
    }
    network_.finish();
    actions_.finish();
  }

 private:
  // Adds the gradients of the loss whose derivatives were written for `samples` samples, the values' over the values.
  void backward(std::int64_t samples);

  // Parameters are read at begin() and gradients are written at finish(); in between the policy is not touched.
  FusedRows<Real> rows_;
  MlpGradient<Real> network_;
  ActionGradient<Real> actions_;
  const std::int64_t head_size_;
  ChoiceDivergence<Real> divergence_;
  const Real* reference_ = nullptr;
  // Rows past the samples of a short block are set to zero by backward(), since kernels work on whole vectors.
  Real of_log_prob_[kBlock] = {}, of_entropy_[kBlock] = {}, of_divergence_[kBlock] = {};
};

extern template class FusedBlock<float>;
extern template class FusedBlock<double>;

}  // namespace tandem::rl
