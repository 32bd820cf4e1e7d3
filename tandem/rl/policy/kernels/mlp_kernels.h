// rl/policy/kernels/mlp_kernels.h: the loops of a multi-layer perceptron, for each instruction set: MlpKernels act on
// rows, BlockKernels learn from blocks of samples.
//
// MlpKernels: a row's result depends on that row alone: every output is bias + x[0] w[0] + x[1] w[1] + ... in this
// order (fused multiply-add where the set has it), however many rows are given. So the bits are the same for every
// batch size.
//
// A block is feature-major: one row a feature, kBlock samples in it, so that vectors go along the samples whatever the
// layers' widths are. Forward and backward passes of dense layers need one kind of product of matrices; strides say
// which of them is transposed. Bits depend on the operands and the instruction set alone.
//
// There are float32 loops for every set, and float64 loops of blocks for the portable one, which compare formulas with
// autograd. The loops are written once, in mlp_kernels.inc and block_kernels.inc, and compiled for each set by
// mlp_kernels.cc and mlp_kernels_avx.cc. Kernels for another kind of layer are members of a table of their own beside
// BlockKernels, as cell_kernels.h, and of SetKernels.
//
// Threads: any; loops write to the caller's memory alone.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "tandem/base/cpu.h"
#include "tandem/base/huge_pages.h"
#include "tandem/rl/policy/kernels/images/convolution_kernels.h"
#include "tandem/rl/policy/kernels/sequences/cell_kernels.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// Outputs of a layer are padded with zeros to a multiple of kPanel, the numbers of the widest vector.
inline constexpr std::int64_t kPanel = 16;

/// A number of outputs rounded up to whole panels.
[[nodiscard]] constexpr std::int64_t padded(std::int64_t outputs) { return (outputs + kPanel - 1) / kPanel * kPanel; }

/// Memory for vector loops: numbers, zero at first, that begin at a cache line. Large memory is in huge pages.
template <typename Real>
class AlignedArray {
 public:
  explicit AlignedArray(std::int64_t count = 0) : data_(take(static_cast<std::size_t>(count) * sizeof(Real))) {
    std::fill(data_.get(), data_.get() + count, Real{0});
  }
  [[nodiscard]] Real* data() { return data_.get(); }
  [[nodiscard]] const Real* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(Real* data) const { ::operator delete[](data, alignment); }
    std::align_val_t alignment{64};
  };
  using Numbers = std::unique_ptr<Real[], Free>;
  static Numbers take(std::size_t bytes) {
    const std::align_val_t alignment{bytes < kHugeMemory ? 64 : kHugePage};
    Numbers numbers(static_cast<Real*>(::operator new[](bytes, alignment)), Free{alignment});
    prefer_huge_pages(numbers.get(), bytes);
    return numbers;
  }
  Numbers data_;
};

using AlignedFloats = AlignedArray<float>;

/// Weights of one layer in the order in which dense() reads them: panels of kPanel outputs, input by input.
struct PackedLayer {
  PackedLayer(std::int64_t inputs, std::int64_t outputs);
  /// From torch's [outputs, inputs] and [outputs], both contiguous.
  void pack(const float* weight, const float* bias_of) { pack(weight, bias_of, 0, outputs); }
  /// The `count` outputs from `first` on, from [count, inputs] and [count].
  void pack(const float* weight, const float* bias_of, std::int64_t first, std::int64_t count);

  std::int64_t inputs, outputs;
  /// [padded(outputs) / kPanel, inputs, kPanel] and [padded(outputs)].
  AlignedFloats weights;
  AlignedFloats bias;
};

/// The loops on rows of one instruction set.
struct MlpKernels {
  /// y[r, o] = bias[o] + sum of x[r, i] w[o, i]. Rows of x are `x_stride` floats apart, rows of y padded(outputs); the
  /// padding of y becomes 0.
  void (*dense)(const float* x, std::int64_t x_stride, std::int64_t rows, const PackedLayer& layer, float* y);
  /// y = f(x) for a multiple of kPanel floats; x and y may be one array. NaN stays NaN. tanh is within 2e-7 of the true
  /// value.
  void (*activate)(Activation activation, const float* x, float* y, std::int64_t count);
};

/// Throws ConfigError when this processor does not have `set`.
[[nodiscard]] const MlpKernels& mlp_kernels(InstructionSet set);

/// Samples of a block: the activations of 64 units then take 16 KiB of float32, a third of a first-level cache.
inline constexpr std::int64_t kBlock = 64;

/// How many blocks hold `rows` samples.
[[nodiscard]] constexpr std::int64_t blocks_of(std::int64_t rows) { return (rows + kBlock - 1) / kBlock; }

/// C[m, n] = start[m, n] + sum over k of A[m, k] B[k, n], in the order of k.
template <typename Real>
struct Product {
  // The extents of m, n (a multiple of kPanel) and k.
  std::int64_t rows, columns, depth;
  const Real* a;
  // Elements from A[m, k] to A[m + 1, k], and to A[m, k + 1].
  std::int64_t a_row, a_depth;
  const Real* b;
  std::int64_t b_stride;
  Real* c;
  std::int64_t c_stride;
  enum class Start { kZero, kBias, kColumnBias, kKeep } start = Start::kZero;
  // For kBias: start[m, n] = bias[m]; for kColumnBias: bias[n].
  const Real* bias = nullptr;
};

/// Discrete choices of a block, each with `options` logits that follow each other. Arrays are [.., kBlock].
template <typename Real>
struct ChoiceBlock {
  std::int64_t options, samples;  // samples: a multiple of kPanel
  Real* logits;                   // [options, kBlock]
  const Real* allowed;            // [options, kBlock]: 1, or 0 where a mask excludes; null: all
  const Real* taken;              // [kBlock]: the option that was
  Real* log_prob;                 // [kBlock]
  Real* entropy;                  // [kBlock]: of this choice
};

/// One component of normal actions.
template <typename Real>
struct NormalBlock {
  std::int64_t samples;
  Real inverse_deviation;
  // [kBlock] each: the mean, the component of the action that was taken, and the sum of log-probabilities so far.
  Real* mean;
  const Real* taken;
  Real* log_prob;
};

/// A layer norm over the features of each sample of a block (torch's layer_norm with eps 1e-5).
template <typename Real>
struct NormBlock {
  std::int64_t features, samples;  // samples: a multiple of kPanel
  const Real* scale;               // [features]
  const Real* shift;               // [features]
  Real* normal;                    // [features, kBlock]: the argument x, then (x - mean) / deviation
  Real* inverse_deviation;         // [kBlock]
};

/// How the log_std of a state comes from the head's number x.
struct LogStdRange {
  /// kClamped: x cut to low .. high, with gradient 0 beyond (Haarnoja et al. 2018; stable-baselines3).
  /// kSquashed: low + (high - low) (tanh(x) + 1) / 2 (CleanRL, with low = -5).
  enum class Kind { kClamped, kSquashed } kind = Kind::kClamped;
  double low = -20, high = 2;
};

/// One component of actions drawn from a squashed normal distribution: a = tanh(u), u = mean + exp(log_std) noise.
template <typename Real>
struct SquashBlock {
  std::int64_t samples;  // a multiple of kPanel
  LogStdRange range;
  // [kBlock] each: the mean, then exp(log_std) noise; the head's number for log_std; the noise; the action; the sum of
  // log-probabilities so far.
  Real* mean;
  Real* log_std;
  const Real* noise;
  Real* action;
  Real* log_prob;
};

/// The loops on blocks of one instruction set.
template <typename Real>
struct BlockKernels {
  /// The product of two matrices.
  void (*multiply)(const Product<Real>& product);
  /// to[c, r] = from[r, c]; rows and columns are rounded up to multiples of kPanel, so both need memory for those.
  void (*transpose)(const Real* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, Real* to,
                    std::int64_t to_stride);
  /// y = f(x) for a multiple of kPanel numbers; x and y may be one array.
  void (*activate)(Activation activation, const Real* x, Real* y, std::int64_t count);
  /// gradient *= f'. `kept`: y for tanh, relu and elu, x for silu and gelu.
  void (*multiply_by_slope)(Activation activation, const Real* kept, Real* gradient, std::int64_t count);
  /// sums[r, i mod kPanel] += from[r, i] for the first `columns` (a multiple of kPanel) of kBlock numbers in a row.
  void (*add_columns)(const Real* from, std::int64_t rows, std::int64_t columns, Real* sums);

  /// Turns logits into logarithms of probabilities, adds that of the taken option to log_prob and writes the entropy.
  void (*choose)(const ChoiceBlock<Real>& choice);
  /// Turns logarithms of probabilities into derivatives with respect to the logits, of a loss whose derivatives with
  /// respect to log_prob and to the entropy are given, [kBlock] each.
  void (*choose_back)(const ChoiceBlock<Real>& choice, const Real* of_log_prob, const Real* of_entropy);
  /// Turns means into z = (taken - mean) / deviation and adds -z^2 / 2 to log_prob.
  void (*normal)(const NormalBlock<Real>& component);
  /// Turns z into derivatives with respect to the mean, and writes the derivatives with respect to log_std by way of
  /// log_prob alone.
  void (*normal_back)(const NormalBlock<Real>& component, const Real* of_log_prob, Real* of_log_std);

  /// y = normal scale + shift, [features, kBlock], from the norm's argument.
  void (*normalize)(const NormBlock<Real>& norm, Real* y);
  /// Turns derivatives with respect to y into those with respect to the argument. Adds the derivatives with respect to
  /// scale and shift to sums [features, kPanel], as add_columns() does; both null: they are not wanted.
  void (*normalize_back)(const NormBlock<Real>& norm, Real* gradient, Real* scale_sums, Real* shift_sums);

  /// Draws the component and adds its part to log_prob.
  void (*squash)(const SquashBlock<Real>& component);
  /// Writes the derivatives with respect to mean and to the head's number for log_std over the two, from those with
  /// respect to the action and to log_prob, [kBlock] each.
  void (*squash_back)(const SquashBlock<Real>& component, const Real* of_action, const Real* of_log_prob);
};

/// Throws ConfigError when this processor does not have `set`. float64 has the portable loops under every set.
template <typename Real>
[[nodiscard]] const BlockKernels<Real>& block_kernels(InstructionSet set);
template <>
const BlockKernels<float>& block_kernels(InstructionSet set);
template <>
const BlockKernels<double>& block_kernels(InstructionSet set);

/// The loops of one instruction set; those of AVX exist on x86-64 alone.
struct SetKernels {
  MlpKernels mlp;
  BlockKernels<float> block;
  CellKernels<float> cell;
  ConvolutionKernels<float> convolution;
};
[[nodiscard]] const SetKernels& avx2_kernels();
[[nodiscard]] const SetKernels& avx512_kernels();

}  // namespace tandem::rl
