// rl/algo/weights.h: parameters and buffers of a policy as they travel from the learner to rollout workers.
//
// Threads: as the tensors.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <vector>

namespace tandem::rl {

/// Parameters and buffers of a module, in its order.
using Weights = std::vector<at::Tensor>;
/// The module's own, alive.
[[nodiscard]] Weights weights_of(torch::nn::Module& module);
/// Memory on the CPU for the like of them, with their present values.
[[nodiscard]] Weights copies_of(const Weights& weights);
void copy_weights(const Weights& from, const Weights& to);

}  // namespace tandem::rl
