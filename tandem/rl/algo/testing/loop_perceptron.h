// A perceptron with ReLU by plain loops in float64: what losses are compared with.
//
// It shares nothing with the modules but their numbers, so that a mistake in a product would show.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl::testing {

using Numbers = std::vector<double>;

/// Applies `network`, whose activation is ReLU and which has no norms, to the row `x`.
inline Numbers perceptron(const Mlp& network, Numbers x) {
  for (std::size_t layer = 0; layer < network.layers().size(); ++layer) {
    const at::Tensor weight = network.layers()[layer]->weight.detach(), bias = network.layers()[layer]->bias.detach();
    Numbers y;
    for (std::int64_t o = 0; o < weight.size(0); ++o) {
      double sum = bias[o].item<double>();
      for (std::int64_t i = 0; i < weight.size(1); ++i)
        sum += weight[o][i].item<double>() * x[static_cast<std::size_t>(i)];
      y.push_back(network.is_activated(layer) ? std::max(sum, 0.0) : sum);
    }
    x = std::move(y);
  }
  return x;
}

/// The numbers of one row of a matrix.
inline Numbers row_of(const at::Tensor& matrix, std::int64_t row) {
  Numbers numbers;
  for (std::int64_t i = 0; i < matrix.size(1); ++i) numbers.push_back(matrix[row][i].item<double>());
  return numbers;
}

}  // namespace tandem::rl::testing
