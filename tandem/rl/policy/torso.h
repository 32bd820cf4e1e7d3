// rl/policy/torso.h: convolutions in front of the hidden layers of a policy, for observations that are images.
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
// Threads: as ActorCritic. Errors: ConfigError.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/policy/torso_options.h"

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
  /// To be called once by the derived class's constructor.
  void set_features(std::int64_t features) { features_ = features; }

 private:
  // The largest value of a pixel, which becomes 1.
  const double largest_;
  std::int64_t features_ = 0;
};

/// `kind`: kNatureCnn or kResidual, as chosen_torso() says. Weights start orthogonal with gain sqrt(2), biases at zero.
[[nodiscard]] std::shared_ptr<ImageTorso> make_torso(Torso kind, const TorsoOptions& options, const Leaf& leaf,
                                                     at::Generator& generator);

}  // namespace tandem::rl
