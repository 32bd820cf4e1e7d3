// rl/policy/kernels/block_net.h: the layers of one MLP over blocks of samples, forward and backward: what MlpGradient
// and MlpEnsemble are made of.
//
// A block is feature-major as mlp_kernels.h says, [features, kBlock]. Parameters are read where they lie at each call;
// gradients are summed over blocks from begin() to finish(), in memory of the net whose rows are padded, or, for
// weights that need no padding, in their .grad (SumsOfWeights).
//
// Threads: single-thread, the replica's. Ownership: the module is not owned and must outlive the net.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/policy/kernels/bfloat16_kernels.h"
#include "tandem/rl/policy/kernels/bfloat16_layer.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// Names what backward() does with the .grad of the parameters.
enum class ParameterGradients { kLeave, kOverwrite, kAdd };

/// The floats from one sample to the next where samples lie as rows of `features`: not a multiple of the cache's page,
/// so that neighbouring samples do not compete for the same lines.
[[nodiscard]] constexpr std::int64_t row_stride(std::int64_t features) { return padded(features) + kPanel; }

/// Whether an activation's slope is computed from its argument, and not from its result (multiply_by_slope()).
[[nodiscard]] constexpr bool needs_argument(Activation activation) {
  return activation == Activation::kSilu || activation == Activation::kGelu;
}

/// The memory of a parameter's .grad, to write the gradient to. Throws InvariantError unless there is a .grad that is
/// laid out as the parameter and of `Real`.
template <typename Real>
[[nodiscard]] Real* gradient_memory(const at::Tensor& parameter);

/// sums[r] = the sum of lanes[r, 0 .. kPanel), which BlockKernels::add_columns() left.
template <typename Real>
void write_lane_sums(const Real* lanes, std::int64_t rows, Real* sums);

/// Memory for one backward pass at a time, which nets of the same policy share.
template <typename Real>
struct BackwardScratch {
  /// `widest`: the largest number of inputs or outputs of any layer.
  explicit BackwardScratch(std::int64_t widest)
      : of_hidden{AlignedArray<Real>(padded(widest) * kBlock), AlignedArray<Real>(padded(widest) * kBlock)},
        transposed(kBlock * row_stride(widest)) {}
  // Derivatives with respect to the outputs of two neighbouring layers in turn, [widest, kBlock].
  AlignedArray<Real> of_hidden[2];
  // [kBlock, row_stride(widest)].
  AlignedArray<Real> transposed;
};

/// The input of a net for one block.
template <typename Real>
struct BlockInput {
  /// [features, kBlock].
  const Real* columns = nullptr;
  /// Its rows, [kBlock, row_stride(features)], with zeros or finite numbers in the padding; null: they have to be made.
  const Real* rows = nullptr;
};

/// kForward takes no memory for gradients.
enum class Passes { kForward, kForwardAndBackward };

/// One MLP and the memory for its passes. For each block: forward(), then whatever turns outputs into derivatives, then
/// backward(), before or after the forward passes of other blocks; finish() after the last. What the caller changes of
/// the parameters in between has an effect on backward() but not on the activations, so the two would not fit. `Real`:
/// the dtype of the parameters, float or double.
template <typename Real>
class BlockNet {
 public:
  /// Whether BlockInput::rows is there: gradients of the first layer's weights then cost less.
  enum class InputRows { kGiven, kMissing };
  /// Says where the gradients of a layer's weights are summed. Sums in their .grad take neither memory nor a copy,
  /// which costs a layer of megabytes some of its time; each backward() then writes to .grad, and finish() cannot add.
  enum class SumsOfWeights { kApart, kInGradient };
  struct Options {
    std::int64_t blocks = 1;  // whose activations are kept for backward()
    InputRows rows = InputRows::kGiven;
    Passes passes = Passes::kForwardAndBackward;
    Compute compute = Compute::kFloat32;
    SumsOfWeights sums = SumsOfWeights::kApart;
  };
  /// Throws as bfloat16_kernels() does, and InvariantError for a Compute other than kFloat32 where `Real` is double.
  BlockNet(const Mlp& mlp, const BlockKernels<Real>& kernels, const Options& options);

  /// To be called when parameters have changed, before forward(): rounds them, for a Compute other than kFloat32.
  void take_parameters();
  /// Sums of gradients begin at zero.
  void begin();
  /// Runs the layers for the first `samples` of a block, at most kBlock. `block`: where activations are kept.
  void forward(const BlockInput<Real>& input, std::int64_t block, std::int64_t samples);
  /// [outputs, kBlock] of a block, until the next forward() for it.
  [[nodiscard]] Real* output(std::int64_t block);
  /// The last layer's input: [its inputs, kBlock] of a block. `input` is that of forward().
  [[nodiscard]] const Real* last_input(const BlockInput<Real>& input, std::int64_t block) const;

  /// The derivatives with respect to inputs begin .. begin + count - 1, written or added to.
  struct OfInput {
    Real* numbers = nullptr;  // null: not wanted
    std::int64_t begin = 0, count = 0;
    // kKeep adds to what is there: several nets share an input.
    typename Product<Real>::Start start = Product<Real>::Start::kZero;
    // [count, kBlock], or samples in rows, [kBlock, row_stride(count)], which not every net makes.
    enum class Layout { kColumns, kRows } layout = Layout::kColumns;
  };
  /// Whether backward() makes rows of the derivatives with respect to the first `count` inputs. It then goes through
  /// the first layer's weights in their own order.
  [[nodiscard]] bool makes_rows(std::int64_t count) const {
    return count % kPanel == 0 && layers_.front().rounded == nullptr;
  }
  /// Adds the part of a block to the sums of gradients, where `parameters` asks for them. `gradient` [outputs, kBlock]:
  /// the derivatives with respect to the outputs, zero from the samples to their next multiple of kPanel; it is
  /// overwritten. `input` and `samples` are those of the block's forward().
  void backward(const BlockInput<Real>& input, std::int64_t block, std::int64_t samples, Real* gradient,
                ParameterGradients parameters, const OfInput& of_input, BackwardScratch<Real>& scratch);
  /// Overwrites the .grad of all parameters with the sums over the blocks, or adds these. Throws InvariantError when a
  /// parameter has no dense gradient of its shape to write to.
  void finish(ParameterGradients parameters);

  [[nodiscard]] std::int64_t inputs() const { return layers_.front().inputs; }
  [[nodiscard]] std::int64_t outputs() const { return layers_.back().outputs; }

 private:
  // Vectors of the weights' gradient go along its inputs, or along its outputs: whichever takes fewer operations.
  enum class Along { kInputs, kOutputs };
  struct Layer {
    // Scale and shift are those of the norm, undefined without one.
    at::Tensor weight, bias, scale, shift;
    std::int64_t inputs, outputs;
    bool activated;
    Along along;
    // [blocks, padded outputs, kBlock] each: the result; the activation's argument, where the slope needs it; with a
    // norm, the sums before scale and shift, normalised. And 1 / deviation, [blocks, kBlock].
    AlignedArray<Real> output, before, normal, inverse_deviation;
    // Sums over blocks: [outputs, inputs] or [inputs, outputs], rows padded; and whether they hold a block since
    // begin(), before which they hold anything.
    SumsOfWeights sums;
    AlignedArray<Real> weight_sum;  // for kApart
    bool has_sum = false;
    // [outputs, kPanel] each: sums over every kPanel-th sample.
    AlignedArray<Real> bias_sum, scale_sum, shift_sum;
    // The layer's products where they are those of bfloat16, or null.
    std::unique_ptr<Bfloat16Layer> rounded;

    [[nodiscard]] bool has_norm() const { return scale.defined(); }
    [[nodiscard]] std::int64_t at(std::int64_t block) const { return block * padded(outputs) * kBlock; }
  };
  [[nodiscard]] Layer make_layer(const Mlp& mlp, std::size_t i, const Options& options) const;
  [[nodiscard]] static Along choose(std::int64_t inputs, std::int64_t outputs, InputRows rows);
  [[nodiscard]] Real* argument(Layer& layer, std::int64_t block) const;
  [[nodiscard]] NormBlock<Real> norm_block(Layer& layer, std::int64_t block) const;
  void multiply(const Layer& layer, const Real* below, Real* to) const;
  void multiply_back(const Layer& layer, const Real* gradient, const OfInput& to) const;
  void multiply_back_to_rows(const Layer& layer, const Real* gradient, const OfInput& to) const;
  void multiply_by_slope(Layer& layer, std::int64_t block, Real* gradient) const;
  void add_to_weights(Layer& layer, const BlockInput<Real>& input, const Real* gradient, Real* transposed) const;
  // The memory of the sums of weights, and how many numbers are in it.
  [[nodiscard]] static Real* weight_sums(Layer& layer);
  [[nodiscard]] static std::int64_t count_sums(const Layer& layer);
  static void write(Layer& layer, ParameterGradients parameters);

  const BlockKernels<Real>& kernels_;
  const Activation activation_;
  // Samples of the block at hand.
  std::int64_t samples_ = 0;
  std::vector<Layer> layers_;
};

extern template class BlockNet<float>;
extern template class BlockNet<double>;

}  // namespace tandem::rl
