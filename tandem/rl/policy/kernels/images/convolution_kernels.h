// rl/policy/kernels/images/convolution_kernels.h: the loops of convolutions, for each instruction set, one sample at a
// time.
//
// A value of a sample lies channels last, [height, width, channels] with channels rounded up to whole panels and a
// border of zeros where a convolution pads. Vectors go along the channels, so neither samples nor pixels have to be
// transposed, a single row is acted on as fast as many are learned from, and all that one sample needs stays in the
// second-level cache. No patches are copied: the products below read them where they lie.
//
// Bits depend on the operands and the instruction set alone. The loops are written once, in convolution_kernels.inc and
// patch_product.inc, and compiled by mlp_kernels.cc and mlp_kernels_avx.cc; float64 exists for comparing formulas.
//
// Threads: any; loops write to the caller's memory alone.
#pragma once
#include <cstdint>

#include "tandem/base/cpu.h"

namespace tandem::rl {

/// For each line l, C[l, m, n] = start + sum over k of A[l, m, k] B[k, n], in the order of k = (segment, step). All
/// products of a convolution are of this kind (torso_net.cc): lines are rows of pixels or of the kernel, and the
/// segments are what lies in one piece of a patch.
///
/// All strides are free, and C's may be smaller than a line of it: lines and rows must only not meet within one
/// product. A is read number by number and broadcast, B and C in whole vectors along n. Where n has more columns than a
/// tile, A is read once for each tile; depths that exceed the first-level cache are gone through in parts, in the same
/// order.
template <typename Real>
struct PatchProduct {
  // Extents; columns: a multiple of kPanel.
  std::int64_t lines, rows, columns, segments, run;
  // Numbers from A[l, m, (segment, step)] to the next in each of them.
  const Real* a;
  std::int64_t a_line, a_row, a_segment, a_step;
  const Real* b;
  std::int64_t b_segment, b_step;
  Real* c;
  std::int64_t c_line, c_row;
  // What the sums begin with: zero, bias[n], or what C holds.
  enum class Start { kZero, kBias, kKeep } start = Start::kZero;
  const Real* bias = nullptr;  // [columns], for kBias
  // What is stored: the sum, or the larger of it and zero.
  enum class Finish { kStore, kRectify } finish = Finish::kStore;
};

/// The part of a value that one result of a pooling sees: [rows, columns, channels].
template <typename Real>
struct PoolWindow {
  const Real* from;
  std::int64_t rows, columns, line;  // line: numbers from one row to the next
  std::int64_t channels;             // a multiple of kPanel
};

/// The loops of one instruction set. Counts are multiples of kPanel, but for those of widen(). Arrays are the caller's,
/// and begin anywhere.
template <typename Real>
struct ConvolutionKernels {
  void (*multiply)(const PatchProduct<Real>& product);
  /// to[i] = from[i], as it is.
  void (*widen)(const std::uint8_t* from, std::int64_t count, Real* to);
  /// to += from.
  void (*add)(const Real* from, std::int64_t count, Real* to);
  /// to += gradient where kept > 0.
  void (*add_slopes)(const Real* kept, const Real* gradient, std::int64_t count, Real* to);
  /// sums[c] += from[i, c] for all positions i in turn.
  void (*add_positions)(const Real* from, std::int64_t positions, std::int64_t channels, Real* sums);
  /// The largest of the window by channel; and back: each channel's gradient is added to the first that is as large.
  void (*take_largest)(const PoolWindow<Real>& window, Real* largest);
  void (*give_to_largest)(const PoolWindow<Real>& window, const Real* largest, const Real* gradient, Real* to);
};

/// Throws ConfigError when this processor does not have `set`. float64 has the portable loops under every set.
template <typename Real>
[[nodiscard]] const ConvolutionKernels<Real>& convolution_kernels(InstructionSet set);
template <>
const ConvolutionKernels<float>& convolution_kernels(InstructionSet set);
template <>
const ConvolutionKernels<double>& convolution_kernels(InstructionSet set);

}  // namespace tandem::rl
