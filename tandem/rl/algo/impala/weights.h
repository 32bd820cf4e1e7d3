// rl/algo/impala/weights.h: parameters and buffers of a policy as they travel from the learner to rollout workers.
//
// Threads: as the tensors.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <vector>

namespace tandem::rl {

/// Parameters and buffers of a module, in its order.
/// Two modules of the same class have the same order, so weights can be copied by position.
using Weights = std::vector<at::Tensor>;
/// Returns the module's own tensors, alive: they change as the module learns.
[[nodiscard]] Weights weights_of(torch::nn::Module& module);
/// Returns copies on the CPU, with the present values.
[[nodiscard]] Weights copies_of(const Weights& weights);
/// Copies values between tensors of the same shapes, also between devices. Throws InvariantError for another number of
/// tensors.
void copy_weights(const Weights& from, const Weights& to);

}  // namespace tandem::rl
