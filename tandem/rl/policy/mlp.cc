#include "tandem/rl/policy/mlp.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <string>

#include "tandem/model/init.h"
#include "tandem/rl/policy/names.h"

namespace tandem::rl {
namespace {

constexpr Names<5> kActivations{"tanh", "relu", "silu", "gelu", "elu"};

}  // namespace

const char* name_of(Activation activation) { return name_in(kActivations, activation); }

Activation activation(std::string_view name) { return value_in<Activation>(kActivations, name, "activation"); }

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kTanh:
      return at::tanh(x);
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGelu:
      return at::gelu(x);
    case Activation::kElu:
      return at::elu(x);
  }
  return x;
}

// Layers draw their weights in order, so the numbers of a layer do not depend on those that follow.
Mlp::Mlp(const Options& options, at::Generator generator) : options_(options) {
  for (std::size_t i = 0; i + 1 < options.sizes.size(); ++i) {
    layers_.emplace_back(register_module(std::to_string(i), torch::nn::Linear(options.sizes[i], options.sizes[i + 1])));
    const bool is_last = i + 2 == options.sizes.size();
    const bool is_head = is_last && options.last == LastLayer::kLinear;
    model::init_orthogonal(layers_[i]->weight, is_head ? options.last_gain : options.gain, generator);
    torch::nn::init::zeros_(layers_[i]->bias);
  }
}

at::Tensor Mlp::apply(std::size_t layer, const at::Tensor& x) {
  const at::Tensor y = at::linear(x, layers_[layer]->weight, layers_[layer]->bias);
  return is_activated(layer) ? activate(options_.activation, y) : y;
}

at::Tensor Mlp::forward(at::Tensor x) {
  for (std::size_t i = 0; i < layers_.size(); ++i) x = apply(i, x);
  return x;
}

at::Tensor Mlp::forward_to_last(at::Tensor x) {
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) x = apply(i, x);
  return x;
}

}  // namespace tandem::rl
