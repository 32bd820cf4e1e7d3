// rl/policy/kernels/images/bfloat16_convolution.h: the products of a convolution with factors rounded to bfloat16.
// Internal to TorsoNet, whose convolutions have one each where Compute asks for it.
//
// Each takes the product of floats that it stands for. Weights are rounded once for all samples of a pass, values and
// derivatives of a sample when they come: pairs are neighbouring channels, or, where the sum is over pixels, the pixels
// of two lines.
//
// Sums begin with what C holds, and C is float32, as are the values that it rounds: the ReLU's slope, pooling and the
// bias's gradient are those of float32 products.
//
// Threads: single-thread, the replica's. All memory is taken when the object is made.
#pragma once
#include <cstdint>

#include "tandem/rl/policy/kernels/bfloat16_kernels.h"

namespace tandem::rl {

/// The rounded factors of one convolution.
class Bfloat16Convolution {
 public:
  struct Sizes {
    // Numbers of a value are counted with borders, since all of it is rounded at once.
    std::int64_t in, out;          // numbers of the values before and after it, with their slack
    std::int64_t pieces, run;      // of a patch, and so of the weights as rows of outputs: piece by piece
    std::int64_t places;           // of the kernel, for the way back to inputs; or zero
    std::int64_t inputs, outputs;  // channels, padded
    std::int64_t lines, line;      // of results: how many, and how many results each
    std::int64_t step;             // numbers from one patch of a line to the next
  };
  /// Throws as bfloat16_kernels() does.
  Bfloat16Convolution(Compute compute, const Sizes& sizes);

  /// Rounds weights [rows, outputs] and, unless null, [places, outputs, inputs] as they are now.
  void take(const float* packed, const float* transposed);
  /// The product of patches of the value `in` and the weights, whose addresses are even.
  void forward(const float* in, PatchProduct<float> product);
  /// The product of the derivatives `of_out` and the transposed weights, for each place of the kernel in turn. The
  /// first place rounds the derivatives for all.
  void to_inputs(const float* of_out, std::int64_t place, PatchProduct<float> product);
  /// The product of patches of the value `in` and derivatives over all pixels, added to sums of its own layout.
  void to_weights(const float* in, PatchProduct<float> product);
  /// Numbers of those sums, and where the one of a weight is: row `k` of the weights, output `o`.
  [[nodiscard]] std::int64_t sums() const;
  [[nodiscard]] std::int64_t sum_of(std::int64_t k, std::int64_t o) const;

 private:
  void pair_derivatives(const PatchProduct<float>& product, std::int64_t line, std::uint32_t* to);
  void to_weights_by_outputs(const PatchProduct<float>& product);

  const Sizes sizes_;
  const Bfloat16Patches& kernels_;
  const BlockKernels<float>& floats_;
  AlignedArray<std::uint32_t> packed_, transposed_;
  // Rounded numbers of the sample at hand. Each call rounds anew what it needs: the forward pass pairs channels of a
  // value, and its gradient of the weights pairs lines, so that words made for the one are none for the other.
  AlignedArray<std::uint32_t> in_, of_out_;
  // For Sums::kOutputsByInputs: derivatives as pairs of lines, [lines / 2, padded line, outputs], zero behind each
  // line, and transposed, [outputs, lines / 2, padded line].
  AlignedArray<std::uint32_t> pairs_, across_;
};

}  // namespace tandem::rl
