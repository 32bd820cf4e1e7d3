// rl/policy/mlp.h: a multi-layer perceptron with orthogonal initial weights from an explicit generator.
//
// forward() is the definition; kernels/mlp_inference.h and kernels/mlp_gradient.h compute the same faster on the CPU
// and read layers() for it.
//
// Threads: as torch::nn::Module.
#pragma once
#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::rl {

enum class Activation { kTanh, kRelu, kSilu, kGelu, kElu };

/// "tanh", "relu", "silu", "gelu", "elu" (kGelu is the exact one, with the error function).
[[nodiscard]] const char* name_of(Activation activation);
/// The activation of that name. Throws ConfigError listing the names.
[[nodiscard]] Activation activation(std::string_view name);
/// The activation of each element.
[[nodiscard]] at::Tensor activate(Activation activation, const at::Tensor& x);

/// Linear layers with an activation between them, registered as "0", "1", ...
class Mlp final : public torch::nn::Module {
 public:
  /// kLinear: the last layer is a head, without an activation. kActivated: the last layer is a hidden one.
  enum class LastLayer { kLinear, kActivated };
  struct Options {
    /// Features of the input, then of each layer's output in turn; one entry: no layer.
    std::vector<std::int64_t> sizes;
    Activation activation = Activation::kTanh;
    LastLayer last = LastLayer::kLinear;
    /// The gain of the initial weights of all layers but a linear last one, and that of a linear last layer.
    double gain = 1;
    double last_gain = 1;
  };
  /// Weights are orthogonal times their gain (Saxe, McClelland, Ganguli 2014), biases zero.
  Mlp(const Options& options, at::Generator generator);

  /// `x` [B, sizes.front()]; returns [B, sizes.back()].
  at::Tensor forward(at::Tensor x);
  /// The input of the last layer, [B, units of the last hidden layer].
  at::Tensor forward_to_last(at::Tensor x);

  /// The options that it was made with, and its layers in order, for code that computes forward() by itself.
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const std::vector<torch::nn::Linear>& layers() const { return layers_; }
  /// Whether an activation follows layer `i`.
  [[nodiscard]] bool is_activated(std::size_t i) const {
    return i + 1 < layers_.size() || options_.last == LastLayer::kActivated;
  }

 private:
  // One layer and its activation, if it has one.
  at::Tensor apply(std::size_t layer, const at::Tensor& x);

  Options options_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace tandem::rl
