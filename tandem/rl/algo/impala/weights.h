// rl/algo/impala/weights.h: parameters and buffers of a policy as they travel from the learner to rollout workers.
//
// Threads: as the tensors.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <vector>

#include "tandem/base/check.h"

namespace tandem::rl {

/// Parameters and buffers of a module, in its order.
/// Two modules of the same class have the same order, so weights can be copied by position.
using Weights = std::vector<at::Tensor>;

/// Returns the module's own tensors, alive: they change as the module learns. Parameters are detached, so that copying
/// into them is no operation of autograd.
[[nodiscard]] inline Weights weights_of(torch::nn::Module& module) {
  Weights weights;
  for (const at::Tensor& parameter : module.parameters()) weights.push_back(parameter.detach());
  for (const at::Tensor& buffer : module.buffers()) weights.push_back(buffer);
  return weights;
}

/// Returns copies on the CPU, with the present values.
[[nodiscard]] inline Weights copies_of(const Weights& weights) {
  const at::NoGradGuard no_grad;
  Weights copies;
  for (const at::Tensor& tensor : weights) copies.push_back(tensor.to(at::kCPU, tensor.scalar_type(), false, true));
  return copies;
}

/// Copies values between tensors of the same shapes, also between devices, one after the other; a reader of `to` must
/// be kept away meanwhile. Throws InvariantError for another number of tensors.
inline void copy_weights(const Weights& from, const Weights& to) {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(from.size() == to.size(), from.size(), " tensors for ", to.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace tandem::rl
