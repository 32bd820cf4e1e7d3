#include "tandem/rl/algo/off_policy/off_policy_agent.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tandem::rl {

void OffPolicySums::add(const OffPolicySums& other) {
  Losses::operator+=(other);
  rows += other.rows;
  policy_rows += other.policy_rows;
  value += other.value;
}

// Numbers of the report are read when the graph is built: the loss itself is the only one that waits for a device.
learner::ShardLoss critic_result(const at::Tensor& loss, const at::Tensor& values, const at::Tensor& error,
                                 OffPolicySums& sums, std::vector<float>* errors) {
  const at::NoGradGuard no_grad;
  const auto count = static_cast<double>(error.size(0));
  const double mean = loss.item<double>();
  sums.rows += count;
  sums.value_loss += count * mean;
  sums.value += count * values.mean().item<double>();
  if (errors != nullptr) {
    const at::Tensor sizes = error.detach().to(at::kCPU, at::kFloat).contiguous();
    const std::span<const float> each(sizes.const_data_ptr<float>(), static_cast<std::size_t>(sizes.numel()));
    errors->insert(errors->end(), each.begin(), each.end());
  }
  return {.loss = loss, .weight = count, .outputs = {}, .parts = {{{"value_loss", mean}}}};
}

}  // namespace tandem::rl
