// rl/policy/kernels/images/torso_net.h: the convolutions of one image, forward and backward without autograd, a sample
// at a time.
//
// ImageTorso::forward() and autograd are the definition, and results agree with theirs to rounding. Pixels are widened
// from bytes and not divided: 1/255 is in the first layer's weights. They are widened again for the way back, which
// costs less than to keep four times as many bytes of each sample until then, out of the second-level cache. The
// gradient with respect to pixels is never computed. The bits of results depend on the samples, in their order, the
// parameters and the instruction set alone.
//
//     net.begin();
//     for each block of samples:
//       net.forward(i, image, row) for each sample i of it;
//       net.backward(i, gradient of the row) for each sample i of it, in this order;
//     net.finish();
//
// A sample's way back needs all values of its way forward, so a net keeps those of a block of samples: the layers
// behind the torso want many samples at once, and a torso one after the other. With Passes::kForward it keeps one
// sample's, and nothing for gradients. Images are not kept: they lie where the caller has them until their way back.
//
// Threads: single-thread, the replica's. Ownership: the torso is not owned and must outlive the net.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/kernels/images/torso_convolution.h"

namespace tandem::rl {

/// `Real`: the dtype of the parameters, float or double, which lie on the CPU.
template <typename Real>
class TorsoNet {
 public:
  struct Options {
    // How many samples may be forward before the first of them goes back.
    std::int64_t samples = 1;
    // Acting has no way back.
    Passes passes = Passes::kForwardAndBackward;
    // What its products multiply; convolutions with few inputs or outputs multiply float32 in any case, and so does a
    // first one whose patches do not begin at even pixels.
    Compute compute = Compute::kFloat32;
  };
  /// Takes all memory that it will need. Throws ConfigError when this processor does not have `set`, as
  /// bfloat16_kernels() does, and InvariantError for a Compute other than kFloat32 where `Real` is double.
  TorsoNet(const ImageTorso& torso, InstructionSet set, const Options& options);

  /// The length of a row.
  [[nodiscard]] std::int64_t features() const { return torso_.features(); }
  /// Takes the parameters as they are now.
  void take_parameters();
  /// The same, and sums of gradients begin at zero.
  void begin();
  /// Writes the features of `image`, a row of the leaf, to `row`. `sample`: where its values are kept. The image stays
  /// where it is until backward() of the sample.
  void forward(std::int64_t sample, const std::uint8_t* image, Real* row);
  /// Goes back from a sample's features to its first convolution.
  /// Adds a sample's part to the sums of gradients, from the derivatives with respect to its row.
  void backward(std::int64_t sample, const Real* of_row);
  /// To be called once after the last backward() of a pass, by the thread that made it.
  /// Overwrites the .grad of all parameters with the sums. Throws InvariantError when one has no dense gradient of its
  /// shape to write to.
  void finish() const;

 private:
  using Kind = TorsoStep::Kind;
  using Value = TorsoValue<Real>;

  // Whether the step that follows a convolution is a ReLU of its value, which nothing else takes.
  [[nodiscard]] bool is_rectified(std::size_t step) const;
  void add_value(std::size_t i, const Options& options);
  // Makes value 0 of a row of bytes.
  void widen(const std::uint8_t* image);
  // One step that is no convolution, to its value `out`, and back from that value's gradient.
  void go_forward(const TorsoStep& step, Value& out, std::int64_t sample);
  void go_back(const TorsoStep& step, Value& out, std::int64_t sample);
  // Values of one shape may have borders of different widths, so what goes from one to the other goes line by line.
  // Calls visit(from, to, count) with the places of each line of pixels in the arrays of two values of one shape.
  template <typename Visit>
  static void for_lines(const Value& from, const Value& to, const Visit& visit);
  // Pooling looks at three by three pixels around every second one, and at fewer at the image's edges.
  // Calls visit(window, from, to) for each result of a pooling, with the places of the window's first pixel in the
  // array of `in` and of the result in that of `out`.
  template <typename Visit>
  static void for_windows(Value& in, const Value& out, std::int64_t sample, const Visit& visit);

  // The definition, whose list of steps all passes go through.
  const ImageTorso& torso_;
  const ConvolutionKernels<Real>& kernels_;
  const BlockKernels<Real>& block_kernels_;
  std::vector<Value> values_;
  std::vector<const std::uint8_t*> images_;  // by sample
  // Steps that are no convolution have loops in go_forward() and go_back().
  // By step: a convolution, with the number of the value that it makes, which is that of its ReLU where it has one.
  struct Layer {
    std::unique_ptr<TorsoConvolution<Real>> convolution;  // null: another step
    std::size_t out = 0;
  };
  std::vector<Layer> layers_;
};

extern template class TorsoNet<float>;
extern template class TorsoNet<double>;

}  // namespace tandem::rl
