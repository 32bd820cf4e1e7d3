// rl/policy/kernels/bfloat16_layer.h: the three products of a dense layer on a block, with factors rounded to bfloat16.
// Internal to BlockNet, whose layers have one each where Compute asks for it.
//
// The weights are rounded once for all blocks of a pass, the activations and derivatives of a block when they come.
//
// Threads: single-thread, the replica's. All memory is taken when the object is made.
#pragma once
#include <cstdint>

#include "tandem/rl/policy/kernels/bfloat16_kernels.h"

namespace tandem::rl {

class Bfloat16Layer {
 public:
  /// Whether a layer is large enough: depths are padded to 32, and rounding costs as much for a narrow layer as for a
  /// wide one.
  [[nodiscard]] static bool pays(std::int64_t inputs, std::int64_t outputs) { return inputs >= 32 && outputs >= 32; }

  /// Throws as bfloat16_kernels() does.
  Bfloat16Layer(std::int64_t inputs, std::int64_t outputs, Compute compute);

  /// Rounds weights [outputs, inputs] as they are now.
  void take(const float* weight);
  /// to [outputs, kBlock] = W x + bias, from x [inputs, kBlock]. `samples`: a multiple of kPanel, as below. Memory of
  /// `to` has padded(outputs) rows.
  void forward(const float* x, std::int64_t samples, const float* bias, float* to);
  /// to [count, kBlock] (+)= the derivatives with respect to inputs begin .. begin + count - 1, from those with respect
  /// to the outputs, [outputs, kBlock]. Memory of `to` has padded(count) rows.
  void to_inputs(const float* gradient, std::int64_t samples, std::int64_t begin, std::int64_t count, float* to,
                 Product<float>::Start start);
  /// sums [padded(outputs), padded(inputs)] (+)= the product of gradient [outputs, kBlock] and x [inputs, kBlock] over
  /// the samples.
  void add_to_weights(const float* gradient, const float* x, std::int64_t samples, float* sums,
                      Product<float>::Start start);

 private:
  const std::int64_t inputs_, outputs_;
  const Bfloat16Kernels& kernels_;
  const BlockKernels<float>& floats_;
  // Words of two numbers: the weights as [outputs, inputs/2], and transposed, [inputs, outputs/2].
  AlignedArray<std::uint32_t> weight_, transposed_weight_;
  // Rounded numbers of the block at hand, in rows of pairs or with pairs side by side: room for the widest.
  AlignedArray<std::uint32_t> first_, second_, transposed_;
};

}  // namespace tandem::rl
