#include "tandem/rl/algo/vtrace.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// Calls for each step would take longer than everything else.
template <typename Real>
VtraceTargets vtrace_in_memory(const VtraceInput& input, const VtraceOptions& options) {
  const at::Tensor log_ratio = input.log_ratio.contiguous(), reward = input.reward.contiguous(),
                   discount = input.discount.contiguous(), value = input.value.contiguous();
  VtraceTargets targets{.value_target = at::empty(reward.sizes(), reward.options()),
                        .advantage = at::empty(reward.sizes(), reward.options())};
  vtrace(VtraceNumbers<Real>{.steps = reward.size(0),
                             .rows = reward.size(1),
                             .log_ratio = log_ratio.const_data_ptr<Real>(),
                             .reward = reward.const_data_ptr<Real>(),
                             .discount = discount.const_data_ptr<Real>(),
                             .value = value.const_data_ptr<Real>(),
                             .value_target = targets.value_target.data_ptr<Real>(),
                             .advantage = targets.advantage.data_ptr<Real>()},
         options);
  return targets;
}

}  // namespace

VtraceTargets vtrace(const VtraceInput& input, const VtraceOptions& options) {
  const at::NoGradGuard no_grad;
  const std::int64_t steps = input.reward.size(0);
  TANDEM_CHECK(input.log_ratio.sizes() == input.reward.sizes() && input.discount.sizes() == input.reward.sizes() &&
                   input.value.dim() == 2 && input.value.size(0) == steps + 1 &&
                   input.value.size(1) == input.reward.size(1),
               "V-trace of rewards ", input.reward.sizes(), ", values ", input.value.sizes());
  if (input.value.is_cpu() && input.value.scalar_type() == at::kFloat) return vtrace_in_memory<float>(input, options);
  if (input.value.is_cpu() && input.value.scalar_type() == at::kDouble) return vtrace_in_memory<double>(input, options);
  return vtrace_by_operations(input, options);
}

VtraceTargets vtrace_by_operations(const VtraceInput& input, const VtraceOptions& options) {
  const at::NoGradGuard no_grad;
  const std::int64_t steps = input.reward.size(0);
  const at::Tensor ratio = input.log_ratio.exp();
  const at::Tensor value = input.value.narrow(0, 0, steps), next_value = input.value.narrow(0, 1, steps);
  const at::Tensor delta = ratio.clamp_max(options.rho_clip) * (input.reward + input.discount * next_value - value);
  const at::Tensor carried = input.discount * ratio.clamp_max(options.c_clip);

  // beyond[t] = v_t - V(x_t), from the end, where it is zero.
  at::Tensor beyond = at::zeros_like(input.value);
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    at::Tensor row = beyond[t];
    at::addcmul_out(row, delta[t], carried[t], beyond[t + 1]);
  }
  const at::Tensor target = beyond + input.value;
  const at::Tensor advantage =
      ratio.clamp_max(options.policy_rho_clip) * (input.reward + input.discount * target.narrow(0, 1, steps) - value);
  return {.value_target = target.narrow(0, 0, steps), .advantage = advantage};
}

template <typename Real>
void vtrace(const VtraceNumbers<Real>& numbers, const VtraceOptions& options) {
  const std::int64_t rows = numbers.rows;
  for (std::int64_t i = numbers.steps * rows - 1; i >= 0; --i) {
    const bool last = i >= (numbers.steps - 1) * rows;
    const double ratio = std::exp(double{numbers.log_ratio[i]});
    const double value = numbers.value[i], next_value = numbers.value[i + rows];
    const double next_target = last ? next_value : numbers.value_target[i + rows];
    const double discounted = numbers.discount[i];
    const double delta = std::min(options.rho_clip, ratio) * (numbers.reward[i] + discounted * next_value - value);
    const double carried = discounted * std::min(options.c_clip, ratio) * (next_target - next_value);
    numbers.value_target[i] = static_cast<Real>(value + delta + carried);
    numbers.advantage[i] = static_cast<Real>(std::min(options.policy_rho_clip, ratio) *
                                             (numbers.reward[i] + discounted * next_target - value));
  }
}

template void vtrace(const VtraceNumbers<float>& numbers, const VtraceOptions& options);
template void vtrace(const VtraceNumbers<double>& numbers, const VtraceOptions& options);

}  // namespace tandem::rl
