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

/// The torso of one image. A derived class registers its convolutions and says how an image goes through them.
class ImageTorso : public torch::nn::Module {
 public:
  /// `image`: [B, channels, height, width] uint8. Returns [B, features()] float32.
  [[nodiscard]] at::Tensor forward(const at::Tensor& image);
  /// forward() as TorchScript statements that compute the variable `result` from the expression `image`; `self` is the
  /// name of this module there.
  [[nodiscard]] std::string script(const std::string& self, const std::string& image, const std::string& result) const;
  /// The length of a row that forward() returns.
  [[nodiscard]] std::int64_t features() const { return features_; }

 protected:
  /// Takes the largest value of a pixel from the leaf's bounds.
  explicit ImageTorso(const Leaf& leaf);
  /// Applies the convolutions to pixels as floats of 0 .. 1, [B, channels, height, width]; returns [B, channels',
  /// height', width'].
  virtual at::Tensor convolve(at::Tensor x) = 0;
  /// convolve() as TorchScript statements that change the variable `x`.
  [[nodiscard]] virtual std::string convolve_script(const std::string& self, const std::string& x) const = 0;

  // The derived class's constructor sets it.
  std::int64_t features_ = 0;

 private:
  // The largest value of a pixel, which becomes 1.
  const double largest_;
};

/// `kind`: kNatureCnn or kResidual, as chosen_torso() says. Weights start orthogonal with gain sqrt(2), biases at zero.
[[nodiscard]] std::shared_ptr<ImageTorso> make_torso(Torso kind, const TorsoOptions& options, const Leaf& leaf,
                                                     at::Generator& generator);

/// The first part of a policy: observations in, features out.
class Encoder final : public torch::nn::Module {
 public:
  /// Throws ConfigError as chosen_torso() and FlatFeatures do.
  Encoder(const Spec& spec, const TorsoOptions& options, at::Generator& generator);

  /// Features of one row: those of the torsos in the order of their leaves, then those of the other leaves.
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] bool has_torso() const { return !torsos_.empty(); }
  /// The features of the leaves that go through no torso; of all leaves where there is no torso.
  [[nodiscard]] const FlatFeatures& flat() const { return flat_; }

  /// [B, size()]. Throws ConfigError for observations that are not of the spec, and as FlatFeatures::encode().
  [[nodiscard]] at::Tensor encode(const Observation& observation);
  /// encode() in TorchScript, as FlatFeatures::script() is; `name` is the name of this module within self.
  [[nodiscard]] FlatFeatures::Script script(const std::string& name) const;

 private:
  // The torso of one image; images have torsos of their own since their sizes may differ.
  struct OfLeaf {
    std::size_t leaf;
    std::shared_ptr<ImageTorso> torso;
  };

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
