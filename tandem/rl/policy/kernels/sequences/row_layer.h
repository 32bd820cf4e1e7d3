// rl/policy/kernels/sequences/row_layer.h: a linear layer over samples that lie as rows, forward and backward: what
// policies that remember learn with.
//
// Blocks of mlp_kernels.h have their vectors along the samples. A step of a recurrent layer may have as few samples as
// there are sequences, so here vectors go along the layer's outputs or inputs, and rows may be any number. Rows of x
// and y are `stride` apart, rounded up to whole panels; the padding of x must be finite, that of y becomes 0.
//
// Threads: single-thread, the replica's. Ownership: parameters are shared; arrays are the caller's.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

/// Rows of numbers. The pointer is valid as long as the caller's memory.
template <typename Real>
struct Rows {
  Real* data = nullptr;
  std::int64_t stride = 0;

  [[nodiscard]] Real* row(std::int64_t r) const { return data + r * stride; }
};

/// The outputs may be several groups of one size, as the gates of a cell, and are padded group by group.
template <typename Real>
class RowLayer {
 public:
  using Start = typename Product<Real>::Start;

  /// Throws nothing: shapes are those of modules that were checked when they were made.
  /// `weight` [groups * n, inputs] and `bias` [groups * n] are `Real` on the CPU, contiguous, and require gradients.
  RowLayer(const at::Tensor& weight, const at::Tensor& bias, std::int64_t groups, const BlockKernels<Real>& kernels);

  /// Takes the parameters as they are now; sums of gradients begin at zero. The copies that it makes cost as much as
  /// some rows do, so it is called once for all rows of a minibatch.
  void begin();
  /// y = W x + b for `rows` rows. A row's bits depend on that row alone.
  void forward(Rows<const Real> x, std::int64_t rows, Rows<Real> y) const;
  /// Derivatives with respect to x from those with respect to y: written, or added to what is there.
  void backward(Rows<const Real> of_y, std::int64_t rows, Rows<Real> of_x, Start start) const;
  /// Adds the part of these rows to the sums of gradients. All rows of a block at once are one product of matrices, and
  /// much faster than a call for each step.
  void add(Rows<const Real> x, Rows<const Real> of_y, std::int64_t rows);
  /// Overwrites the .grad of weight and bias with the sums. Throws InvariantError when there is none to write to.
  void finish() const;

  /// Without padding.
  [[nodiscard]] std::int64_t inputs() const { return inputs_; }
  /// The outputs with their padding.
  [[nodiscard]] std::int64_t width() const { return groups_ * padded(group_); }

 private:
  // Vectors of the weight's gradient go along its inputs, or along its outputs: whichever takes fewer operations.
  enum class Along { kInputs, kOutputs };
  // Where an output lies among the padded ones.
  [[nodiscard]] std::int64_t place_of(std::int64_t output) const {
    return output / group_ * padded(group_) + output % group_;
  }

  const BlockKernels<Real>& kernels_;
  const at::Tensor weight_, bias_;
  // group_: outputs of a group. depth_: places of outputs that may be other than zero.
  const std::int64_t groups_, group_, inputs_, depth_;
  const Along along_;
  // Copies with padding, [width, padded inputs], [padded inputs, width], [width].
  AlignedArray<Real> by_output_, by_input_, biases_;
  // [width, padded inputs] or [padded inputs, width], and [width].
  AlignedArray<Real> weight_sum_, bias_sum_;
};

extern template class RowLayer<float>;
extern template class RowLayer<double>;

}  // namespace tandem::rl
