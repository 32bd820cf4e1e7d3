#include "tandem/rl/algo/sampler.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/check.h"
#include "tandem/device/one_core.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {

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

void copy_weights(const Weights& from, const Weights& to) {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(from.size() == to.size(), from.size(), " tensors for ", to.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

Sampler::Sampler(std::shared_ptr<ActorCritic> policy, std::unique_ptr<AlternatingRollout> rollout,
                 const Normalizers& normalizers)
    : policy_(std::move(policy)),
      rollout_(std::move(rollout)),
      weights_(weights_of(*policy_)),
      normalizers_(normalizers) {}

std::int64_t Sampler::collect(pipeline::Published<Behaviour>& newest, QueuedBatch& into) {
  device::use_one_core();
  {
    const auto reading = newest.read();
    if (reading.version() != version_) {
      copy_weights(reading.value().weights, weights_);
      normalizers_ = reading.value().normalizers;
    }
    version_ = reading.version();
  }
  rollout_->collect(normalizers_, into.parts);
  into.results.clear();
  for (const auto& group : rollout_->groups()) append_results(*group, into.results);
  return version_;
}

}  // namespace tandem::rl
