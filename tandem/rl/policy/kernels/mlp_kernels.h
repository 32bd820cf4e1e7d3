// rl/policy/kernels/mlp_kernels.h: the loops of a multi-layer perceptron on raw float32 rows, for each instruction set.
//
// A row's result depends on that row alone: every output is bias + x[0] w[0] + x[1] w[1] + ... in this order (fused
// multiply-add where the set has it), however many rows are given. So the bits are the same for every batch size.
//
// Threads: any; loops write to the caller's memory alone.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/mlp.h"

namespace tandem::rl {

/// Outputs of a layer are padded with zeros to a multiple of kPanel, the numbers of the widest vector.
inline constexpr std::int64_t kPanel = 16;

/// A number of outputs rounded up to whole panels.
[[nodiscard]] constexpr std::int64_t padded(std::int64_t outputs) { return (outputs + kPanel - 1) / kPanel * kPanel; }

/// Memory for vector loops: numbers, zero at first, that begin at a cache line.
template <typename Real>
class AlignedArray {
 public:
  explicit AlignedArray(std::int64_t count = 0)
      : data_(static_cast<Real*>(
            ::operator new[](static_cast<std::size_t>(count) * sizeof(Real), std::align_val_t{64}))) {
    std::fill(data_.get(), data_.get() + count, Real{0});
  }
  [[nodiscard]] Real* data() { return data_.get(); }
  [[nodiscard]] const Real* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(Real* data) const { ::operator delete[](data, std::align_val_t{64}); }
  };
  std::unique_ptr<Real[], Free> data_;
};

using AlignedFloats = AlignedArray<float>;

/// Weights of one layer in the order in which dense() reads them: panels of kPanel outputs, input by input.
struct PackedLayer {
  PackedLayer(std::int64_t inputs, std::int64_t outputs);
  /// From torch's [outputs, inputs] and [outputs], both contiguous.
  void pack(const float* weight, const float* bias_of);

  std::int64_t inputs, outputs;
  /// [padded(outputs) / kPanel, inputs, kPanel] and [padded(outputs)].
  AlignedFloats weights;
  AlignedFloats bias;
};

/// The loops of one instruction set, written once in mlp_kernels.inc.
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

}  // namespace tandem::rl
