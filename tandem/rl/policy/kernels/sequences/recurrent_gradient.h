// rl/policy/kernels/sequences/recurrent_gradient.h: forward and backward passes of a RecurrentPolicy without autograd,
// a block of sequences at a time: what MlpGradient is for an MlpPolicy.
//
// RecurrentPolicy::forward_sequences() and autograd are the definition, and results agree with theirs to rounding. The
// bits of results depend on the sequences, in their order and in their blocks, the parameters and the instruction set
// alone.
//
//     gradient.begin();
//     for each block of sequences:
//       gradient.reserve(block.rows(), block.sequences);
//       write features to feature(row) and states by set_state();
//       gradient.forward(block);
//       turn head() and value() into derivatives of the loss with respect to them;
//       gradient.backward(block);
//     gradient.finish();
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/rl/policy/kernels/sequences/sequence_branch.h"

namespace tandem::rl {

/// `Real`: the dtype of the policy's parameters, float or double.
template <typename Real>
class RecurrentGradient {
 public:
  /// Throws ConfigError when this processor does not have `set`. The policy lies on the CPU and has no torso; its
  /// parameters are `Real` and require gradients.
  RecurrentGradient(const RecurrentPolicy& policy, InstructionSet set);

  /// Takes the parameters as they are now; sums of gradients begin at zero.
  void begin();
  /// Takes memory for such a block where there is less. What was written before is lost then.
  void reserve(std::int64_t rows, std::int64_t sequences);
  /// Where the features of a row belong; rows are time-major.
  [[nodiscard]] Real* feature(std::int64_t row) { return features_.data() + row * feature_stride_; }
  /// The policy's state before the first step of sequence `s`.
  void set_state(std::int64_t s, const Real* state);
  /// Runs the network. What `block` refers to must be the same until backward().
  void forward(const SequenceBlock<Real>& block);
  /// By row: logits or means, and the value in the first place, until they are overwritten with derivatives. Padding is
  /// zero, and has to stay so. Rows of the head up to the next multiple of kPanel are zero, too, and may be written to.
  [[nodiscard]] Rows<Real> head() { return {head_.data(), action_.width() + kPanel}; }
  [[nodiscard]] Rows<Real> value() { return {values_.data(), value_.width() + kPanel}; }
  /// Adds the block's part to the sums of gradients.
  void backward(const SequenceBlock<Real>& block);
  /// Overwrites the .grad of all parameters but log_std. Throws InvariantError when there is none to write to.
  void finish() const;

  /// Numbers of a row's state, over all branches.
  [[nodiscard]] std::int64_t state_size() const;

 private:
  [[nodiscard]] Rows<const Real> features() const { return {features_.data(), feature_stride_}; }

  const std::int64_t feature_stride_;
  std::vector<SequenceBranch<Real>> branches_;  // the actor's and the critic's, or one for both
  RowLayer<Real> action_, value_;
  std::int64_t reserved_rows_ = 0;
  AlignedArray<Real> features_, head_, values_;  // by row
};

extern template class RecurrentGradient<float>;
extern template class RecurrentGradient<double>;

}  // namespace tandem::rl
