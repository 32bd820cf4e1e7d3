// Which parts of a module a backward pass has reached: losses of one part must leave the others alone.
#pragma once
#include <torch/nn/module.h>

#include <algorithm>
#include <string>

namespace tandem::rl::testing {

/// Whether any parameter whose name begins with `begin` has a gradient, be it zero.
inline bool has_gradients(const torch::nn::Module& module, const std::string& begin) {
  return std::ranges::any_of(module.named_parameters().items(), [&](const auto& item) {
    return item.key().starts_with(begin) && item.value().grad().defined();
  });
}

}  // namespace tandem::rl::testing
