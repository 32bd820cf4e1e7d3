// rl/policy/kernels/images/torso_convolution.h: one convolution of a torso, forward and backward, a sample at a time,
// and the values that it goes between. Internal to TorsoNet.
//
// Forward pass, gradient of the weights and gradient of the inputs are one product each, or one a place of the kernel,
// of which torso_convolution.cc says what its factors are. Sums of gradients are in the order of the samples, and
// within a sample in that of its pixels, so their bits do not depend on anything else.
//
// A convolution reads the weights twice as they change, at begin(), and never while samples go through: packed for the
// forward pass, with the image's scale, and transposed for the way back. Both are small beside the values of a block of
// samples, and stay in the second-level cache with the sums of their gradients.
//
// Ownership: parameters are held as tensors, so the module may go before the convolution does; values are the caller's.
// Threads: single-thread, the replica's. All memory is taken when an object is made.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/kernels/bfloat16_layer.h"
#include "tandem/rl/policy/kernels/block_net.h"
#include "tandem/rl/policy/kernels/images/bfloat16_convolution.h"
#include "tandem/rl/policy/kernels/images/convolution_kernels.h"

namespace tandem::rl {

/// A value of a torso for each sample, and its gradient for the sample at hand. It consists of pixels of `pixel`
/// numbers and lines of `line` numbers, in an array of `size`, whose first pixel within the border of zeros is at
/// `origin`. Value 0, the image, has its channels as rows, [height, channels, width], and so pixels of one number:
/// bytes then become numbers without being moved apart, and a patch of it still consists of equally distant pieces. The
/// border stays zero from when memory is taken, since results are written within it alone. A gradient has a border,
/// too, which collects what belongs to no pixel, and nobody reads it.
template <typename Real>
struct TorsoValue {
  /// Decides the layout. A value whose numbers nobody asks for (between a convolution and the ReLU that is part of it)
  /// stays without memory.
  TorsoValue(const ImageShape& shape, std::int64_t border, bool is_image);
  /// Takes memory for the numbers of `samples` samples, and for a gradient.
  void keep(std::int64_t samples, Passes passes);

  /// The array of one sample, border included. Where the numbers of one sample are kept, it is that of all.
  [[nodiscard]] Real* at(std::int64_t sample) { return numbers.data() + sample * apart; }
  /// The gradient to add to: zero when the sample's first part comes.
  Real* add_to_gradient();

  ImageShape shape;
  std::int64_t border, pixel, line, origin, size;
  std::int64_t apart = 0;  // numbers from one sample to the next
  AlignedArray<Real> numbers, gradient;
  // Whether a part of the gradient has come for the sample at hand; the caller takes it back before the next sample.
  bool has_gradient = false;
};

/// A convolution between two values, with the ReLU that may follow it.
template <typename Real>
class TorsoConvolution {
 public:
  enum class Rectify { kNo, kYes };
  struct Options {
    // Weights are multiplied by it when they are packed, and their gradient at the end: pixels are not divided.
    Real scale = 1;
    Rectify rectify = Rectify::kNo;
    Passes passes = Passes::kForwardAndBackward;
    Compute compute = Compute::kFloat32;
  };
  /// A step that is no convolution has none of these.
  /// `in` and `out` tell the layout of the values, and later calls get values of it. Throws as bfloat16_kernels().
  TorsoConvolution(const TorsoStep& step, const TorsoValue<Real>& in, const TorsoValue<Real>& out, InstructionSet set,
                   const Options& options);

  /// Takes the parameters as they are now.
  void take_parameters();
  /// The same, and sums of gradients begin at zero. To be called before the first backward() of a pass.
  void begin();
  /// Computes the results of a sample from its values in `in`, ReLU included.
  void forward(TorsoValue<Real>& in, TorsoValue<Real>& out, std::int64_t sample);
  /// Goes back over the sample whose values `in` and `out` hold and whose gradient is that of `out`.
  /// Adds to the sums of gradients, and to the gradient of `in` unless that is the image. Multiplies the gradient of
  /// `out` by the slope of the ReLU.
  void backward(TorsoValue<Real>& in, TorsoValue<Real>& out, std::int64_t sample);
  /// Brings the sums back to torch's order, without the padding of channels.
  /// Overwrites the .grad of both parameters. Throws InvariantError as gradient_memory().
  void finish() const;

 private:
  using Product = PatchProduct<Real>;
  // Packing and unpacking go the same way, weight by weight, which costs less than a hundredth of a minibatch.
  // Calls visit(k, t, i) for weight i of torch's order, which has place k in packed_ and t in transposed_.
  template <typename Visit>
  void for_weights(const Visit& visit) const;
  [[nodiscard]] bool rounds(Compute compute) const;
  [[nodiscard]] std::int64_t sums() const;
  void add_to_weights(TorsoValue<Real>& in, TorsoValue<Real>& out, std::int64_t sample);
  void add_to_inputs(TorsoValue<Real>& in, TorsoValue<Real>& out);

  const at::Tensor weight_, bias_;
  const ConvolutionKernels<Real>& kernels_;
  const BlockKernels<Real>& block_kernels_;
  const Options options_;
  const bool of_image_;
  // All of these follow from the layout of the values and stay as they are.
  // A patch consists of pieces_, piece_ numbers apart in its value, of run_ numbers each. Channels are padded.
  const std::int64_t kernel_, stride_, inputs_, outputs_, pieces_, piece_, run_;
  // Where the first patch begins: the border may be wider than this convolution pads.
  const std::int64_t first_;
  // The weights as [pieces, run, outputs], and by place of the kernel, [kernel, kernel, outputs, inputs].
  AlignedArray<Real> packed_, transposed_, shift_;
  // As packed_, unless products of bfloat16 say otherwise, and as shift_.
  AlignedArray<Real> weight_sum_, bias_sum_;
  // The products where they are those of bfloat16, or null.
  std::unique_ptr<Bfloat16Convolution> rounded_;
};

extern template struct TorsoValue<float>;
extern template struct TorsoValue<double>;
extern template class TorsoConvolution<float>;
extern template class TorsoConvolution<double>;

}  // namespace tandem::rl
