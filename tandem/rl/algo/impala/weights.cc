#include "tandem/rl/algo/impala/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/check.h"

namespace tandem::rl {

// Parameters are detached so that copying into them is no operation of autograd.
Weights weights_of(torch::nn::Module& module) {
  Weights weights;
  for (const at::Tensor& parameter : module.parameters()) weights.push_back(parameter.detach());
  for (const at::Tensor& buffer : module.buffers()) weights.push_back(buffer);
  return weights;
}

Weights copies_of(const Weights& weights) {
  const at::NoGradGuard no_grad;
  Weights copies;
  for (const at::Tensor& tensor : weights) copies.push_back(tensor.to(at::kCPU, tensor.scalar_type(), false, true));
  return copies;
}

// In one thread, tensor by tensor; a reader of `to` must be kept away meanwhile.
void copy_weights(const Weights& from, const Weights& to) {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(from.size() == to.size(), from.size(), " tensors for ", to.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace tandem::rl
