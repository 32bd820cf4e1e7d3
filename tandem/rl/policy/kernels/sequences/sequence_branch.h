// rl/policy/kernels/sequences/sequence_branch.h: the hidden layers of a RecurrentBranch and the cell behind them over a
// block of sequences, forward and backward through time.
//
// Rows are time-major, row t * sequences + s. The products with the inputs of all steps are one product of matrices, as
// are the gradients of all weights; a step has the product with the outputs before it alone.
//
// Threads: single-thread, the replica's. Ownership: the module is not owned and must outlive it.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/rl/policy/kernels/sequences/cell_kernels.h"
#include "tandem/rl/policy/kernels/sequences/row_layer.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {

/// The sequences of a block. Arrays are [steps + 1, sequences] of the caller's.
template <typename Real>
struct SequenceBlock {
  std::int64_t steps = 0, sequences = 0;
  /// 0 where an episode begins with the step, 1 elsewhere and behind the last step. Nothing is remembered of before.
  const Real* keep = nullptr;
  /// 0 where no derivatives go from the step to the one before it: where an episode begins, where a piece of truncated
  /// backpropagation begins, and behind the last step.
  const Real* flow = nullptr;

  [[nodiscard]] std::int64_t rows() const { return steps * sequences; }
};

/// For each block: reserve(), states, forward(), derivatives written to slopes(), backward(); finish() after the last.
template <typename Real>
class SequenceBranch {
 public:
  /// Parameters are `Real`, lie on the CPU and require gradients. Throws ConfigError when this processor does not have
  /// `set`.
  SequenceBranch(const RecurrentBranch& branch, InstructionSet set);

  /// Takes the parameters as they are now; sums of gradients begin at zero.
  void begin();
  /// Takes memory for such a block where there is less. States that were set before are lost then, so it comes first.
  void reserve(std::int64_t rows, std::int64_t sequences);
  /// The state before the first step of sequence `s`: output and, of an LSTM, memory; as in the policy's state.
  void set_state(std::int64_t s, const Real* state);
  /// Runs all steps. Everything that backward() needs is kept until the next forward().
  void forward(Rows<const Real> features, const SequenceBlock<Real>& block);
  /// The cell's outputs of all rows; the padding is zero.
  [[nodiscard]] Rows<const Real> output() const { return {output_.data(), stride_}; }
  /// Where derivatives of the loss with respect to output() are to be written, padding included.
  [[nodiscard]] Rows<Real> slopes() { return {slopes_.data(), stride_}; }
  /// Adds the block's part to the sums of gradients. Overwrites what forward() left.
  void backward(Rows<const Real> features, const SequenceBlock<Real>& block);
  /// Overwrites the .grad of all parameters. Throws InvariantError when there is none to write to.
  void finish() const;

  /// Numbers of a row's state in this branch, without padding.
  [[nodiscard]] std::int64_t state_size() const { return state_size_; }

 private:
  // A hidden layer with its result and the activation's argument, which some slopes need; derivatives go over the
  // results.
  struct Hidden {
    RowLayer<Real> layer;
    AlignedArray<Real> output, before;
    [[nodiscard]] std::int64_t stride() const { return layer.width() + kPanel; }
  };
  // Slopes are computed from these.
  [[nodiscard]] Real* argument_of(Hidden& hidden) const;
  // From the derivatives with respect to the gates down to the first layer.
  void backward_hidden(Rows<const Real> features, std::int64_t rows);
  // The cell multiplies this: the last hidden layer's result, or the features.
  [[nodiscard]] Rows<const Real> input(Rows<const Real> features);
  // A GRU has no memory beside its output, and keeps its products, since its gates' slopes need them.
  [[nodiscard]] bool is_lstm() const { return kind_ == CellKind::kLstm; }
  // The products with the outputs before step `t`; an LSTM's are not kept.
  [[nodiscard]] Rows<Real> products(std::int64_t t, std::int64_t sequences);
  // Backward through time, up to the derivatives with respect to the gates of all steps.
  void backward_steps(const SequenceBlock<Real>& block);

  const BlockKernels<Real>& kernels_;
  const CellKernels<Real>& cells_;
  const CellKind kind_;
  const Activation activation_;
  const std::int64_t size_, units_, state_size_;  // units_: size_ with padding
  std::vector<Hidden> hidden_;
  RowLayer<Real> input_, recurrent_;
  // Strides of the cell's arrays and of its gates.
  const std::int64_t stride_, gates_stride_;
  std::int64_t reserved_rows_ = 0, reserved_sequences_ = 0;
  // [rows, gates_stride_], and for an LSTM's products [sequences, gates_stride_].
  AlignedArray<Real> gates_, products_;
  // [rows, stride_]; states before the steps have one step more.
  AlignedArray<Real> output_, slopes_, tanh_memory_, output_before_, memory_before_;
  // [sequences, stride_].
  AlignedArray<Real> carried_output_, carried_memory_;
  // [rows, widest hidden layer]: derivatives with respect to two neighbouring layers' results in turn.
  AlignedArray<Real> of_hidden_[2];
};

extern template class SequenceBranch<float>;
extern template class SequenceBranch<double>;

}  // namespace tandem::rl
