// rl/algo/dqn/noisy_layers.h: perceptrons whose weights and biases have a learned deviation beside their mean, so that
// what is drawn of them explores.
//
// Fortunato et al., "Noisy Networks for Exploration" (2018), arXiv:1706.10295, with factorised noise:
//
//   w = mean + deviation * f(e_output) f(e_input),  b = mean + deviation * f(e_output),  f(x) = sign(x) sqrt(|x|)
//
// so that a layer of n inputs and m outputs takes n + m random numbers and not n m, and one vector times another gives
// all. Here e are standard normal numbers of each input and output of a layer. Means and deviations are one Mlp each,
// of one shape.
//
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// f(e) of the inputs and outputs of a layer.
struct LayerNoise {
  std::vector<float> inputs, outputs;
};
/// The layers of a network have one each, in their order.
using NetNoise = std::vector<LayerNoise>;

/// Takes a normal number of the stream for each input and each output of each layer.
[[nodiscard]] NetNoise draw_noise(const Mlp& net, Philox& random);

/// Deviations of `net`, which begin with first / sqrt(inputs of the layer).
[[nodiscard]] std::shared_ptr<Mlp> make_deviations(const Mlp& net, double first);

/// Mlp::forward() of `net` with that noise. Differentiable with respect to means and deviations.
[[nodiscard]] at::Tensor forward_noisy(const Mlp& net, const Mlp& deviations, const NetNoise& noise, at::Tensor x);

/// A draw of a noisy network is a network of its own, for kernels: they read its parameters and write its
/// gradients. All memory is taken when it is made. Neither module is owned; both are float32 on the CPU.
class NoisyDraw {
 public:
  NoisyDraw(const Mlp& net, const Mlp& deviations);

  /// Draws anew from the parameters as they are now.
  void take(const NetNoise& noise);
  [[nodiscard]] const Mlp& net() const { return *drawn_; }
  /// Overwrites the .grad of means and deviations by way of the gradients of net() and the noise of the last take().
  void give_gradients() const;

 private:
  const Mlp &net_, &deviations_;
  const std::shared_ptr<Mlp> drawn_;
  NetNoise noise_;
};

}  // namespace tandem::rl
