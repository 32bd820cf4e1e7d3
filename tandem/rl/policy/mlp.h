// rl/policy/mlp.h: a multi-layer perceptron with orthogonal initial weights from an explicit generator.
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
[[nodiscard]] at::Tensor activate(Activation activation, const at::Tensor& x);

/// Linear layers with an activation between them, registered as "0", "1", ...
class Mlp final : public torch::nn::Module {
 public:
  enum class LastLayer { kLinear, kActivated };
  struct Options {
    std::vector<std::int64_t> sizes;  // features of the input, of each layer's output in turn; one entry: no layer
    Activation activation = Activation::kTanh;
    LastLayer last = LastLayer::kLinear;
    double gain = 1;       // of the initial weights of all layers but a linear last one
    double last_gain = 1;  // of a linear last layer
  };
  /// Weights are orthogonal times their gain (Saxe, McClelland, Ganguli 2014), biases zero.
  Mlp(const Options& options, at::Generator generator);

  at::Tensor forward(at::Tensor x);
  /// The input of the last layer.
  at::Tensor forward_to_last(at::Tensor x);

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const std::vector<torch::nn::Linear>& layers() const { return layers_; }
  /// Whether an activation follows layer `i`.
  [[nodiscard]] bool is_activated(std::size_t i) const {
    return i + 1 < layers_.size() || options_.last == LastLayer::kActivated;
  }

 private:
  at::Tensor apply(std::size_t layer, const at::Tensor& x);

  Options options_;
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace tandem::rl
