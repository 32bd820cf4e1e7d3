// rl/policy/encoder.h: turns an observation of any leaves into one float32 row of features: images through a torso of
// convolutions, all other leaves as FlatFeatures does it.
//
// An image is a uint8 leaf of shape [channels, height, width]. It stays uint8 in rollouts, queues and on the device,
// and becomes floats of 0 .. 1 here: a pixel is divided by 255, or by the largest of the leaf's upper bounds where its
// spec gives bounds.
//
//   kNatureCnn  V. Mnih et al., "Human-level control through deep reinforcement learning" (Nature 2015):
//               convolutions of 32 8x8 / 4, 64 4x4 / 2 and 64 3x3 / 1, with ReLU. Sides of 36 pixels or more.
//   kResidual   L. Espeholt et al., "IMPALA" (2018), figure 3, the larger network: sections of a 3x3 convolution, a 3x3
//               max-pooling / 2 and residual blocks of ReLU, 3x3, ReLU, 3x3; ReLU behind the last. The paper's channels
//               are {16, 32, 32} with 2 blocks. Each section halves the image: sides of 2 ^ sections pixels or more.
//
// The hidden layers of the policy follow: 512 units in the one paper, 256 in the other.
//
// Every policy of Tandem's begins with an Encoder, so all take the same observations. Parameters: "0.conv_0.weight",
// ... for the torso of leaf 0, and so on; none without a torso.
//
// Threads: as ActorCritic. Errors: ConfigError.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/policy/observation.h"
#include "tandem/rl/policy/policy_options.h"

namespace tandem::rl {

/// "auto", "none", "nature_cnn", "residual".
[[nodiscard]] const char* name_of(Torso torso);

/// Whether a leaf is an image: uint8, with three dimensions.
[[nodiscard]] bool is_image(const Leaf& leaf);

/// The torso that `options` choose for `spec`; never kAuto. Throws ConfigError with all faults: an image that is too
/// small, a torso for observations without an image, channels and blocks out of range.
[[nodiscard]] Torso chosen_torso(const TorsoOptions& options, const Spec& spec);

/// One operation of a torso. A torso is a list of them, so that whatever runs it (tensor operations, TorchScript,
/// kernels) goes through the same list, and a new kind of torso is a new list.
/// Steps come in an order in which their values are there. Value 0 is the image, as numbers of 0 to 1, and value i + 1
/// the result of step i.
struct TorsoStep {
  enum class Kind {
    kConvolve,
    kRectify,  // ReLU
    kPool,     // the largest of 3x3 around every second pixel of a line and every second line
    kAdd,
  } kind;
  // The values that it takes: kAdd has two.
  std::size_t in, also = 0;
  // A value may be taken by several steps, as a residual block takes its input twice; its gradient is then a sum.
  // Of kConvolve.
  std::string name = {};
  torch::nn::Conv2d convolution = nullptr;
  std::int64_t stride = 1, padding = 0;
};

/// The channels, height and width of a value. Tensor operations have values as [rows, channels, height, width], the
/// kernels in an order of their own.
struct ImageShape {
  std::int64_t channels, height, width;
};

/// The convolutions of one image, as a list of steps: forward() and script() go through it, and so do the kernels
/// (kernels/images/torso_net.h).
///
/// forward() is the definition: autograd of it says what a gradient is, and kernels are compared with convolve() in
/// float64. The order of steps is that in which weights are drawn and parameters registered, on which checkpoints and
/// hashes depend.
class ImageTorso final : public torch::nn::Module {
 public:
  /// As make_torso().
  ImageTorso(Torso kind, const TorsoOptions& options, const Leaf& leaf, at::Generator& generator);

  /// `image`: [B, channels, height, width] uint8. Returns [B, features()] float32.
  [[nodiscard]] at::Tensor forward(const at::Tensor& image);
  /// forward() from numbers of 0 to 1, of any dtype.
  [[nodiscard]] at::Tensor convolve(const at::Tensor& x) const;
  /// forward() as TorchScript statements that compute the variable `result` from the expression `image`; `self` is the
  /// name of this module there.
  [[nodiscard]] std::string script(const std::string& self, const std::string& image, const std::string& result) const;
  /// The length of a row that forward() returns.
  [[nodiscard]] std::int64_t features() const;

  [[nodiscard]] const std::vector<TorsoStep>& steps() const { return steps_; }
  /// By value: one more than there are steps.
  [[nodiscard]] const std::vector<ImageShape>& shapes() const { return shapes_; }
  /// The largest value of a pixel, which becomes 1: 255, or the largest of the leaf's upper bounds.
  [[nodiscard]] double largest() const { return largest_; }

 private:
  // These add a step and return the number of its value.
  std::size_t add_convolution(const std::string& name, std::size_t in, const TorsoStep& like, std::int64_t channels,
                              std::int64_t kernel, at::Generator& generator);
  std::size_t add_step(const TorsoStep& step);
  void build_nature_cnn(at::Generator& generator);
  void build_residual(const TorsoOptions& options, at::Generator& generator);

  const double largest_;
  std::vector<TorsoStep> steps_;
  std::vector<ImageShape> shapes_;
};

/// `kind`: kNatureCnn or kResidual, as chosen_torso() says. Weights start orthogonal with gain sqrt(2), biases at zero.
[[nodiscard]] std::shared_ptr<ImageTorso> make_torso(Torso kind, const TorsoOptions& options, const Leaf& leaf,
                                                     at::Generator& generator);

/// The first part of a policy: observations in, features out.
class Encoder final : public torch::nn::Module {
 public:
  /// The torso of one image; images have torsos of their own since their sizes may differ.
  struct OfLeaf {
    std::size_t leaf;
    std::shared_ptr<ImageTorso> torso;
  };

  /// Throws ConfigError as chosen_torso() and FlatFeatures do.
  Encoder(const Spec& spec, const TorsoOptions& options, at::Generator& generator);

  /// Features of one row: those of the torsos in the order of their leaves, then those of the other leaves.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] bool has_torso() const { return !torsos_.empty(); }
  /// The features of the leaves that go through no torso; of all leaves where there is no torso.
  [[nodiscard]] const FlatFeatures& flat() const { return flat_; }
  /// Which leaves of the spec those are, and the torsos of the others, in the order of the spec.
  [[nodiscard]] const std::vector<std::size_t>& flat_leaves() const { return flat_leaves_; }
  [[nodiscard]] const std::vector<OfLeaf>& torsos() const { return torsos_; }

  /// [B, size()]. Throws ConfigError for observations that are not of the spec, and as FlatFeatures::encode().
  [[nodiscard]] at::Tensor encode(const Observation& observation);
  /// encode() in TorchScript, as FlatFeatures::script() is; `name` is the name of this module within self.
  [[nodiscard]] FlatFeatures::Script script(const std::string& name) const;

 private:
  const Spec spec_;
  const Torso kind_;
  // The features of the leaves without a torso, and which leaves of the spec these are.
  const FlatFeatures flat_;
  std::vector<std::size_t> flat_leaves_;
  // In the order of their leaves.
  std::vector<OfLeaf> torsos_;
  // Features of one row in all.
  std::int64_t size_ = 0;
};

}  // namespace tandem::rl
