#include "tandem/rl/algo/impala/vtrace.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// Runs the loop over memory: a tensor operation for each step would take longer than everything else.
template <typename Real>
VtraceTargets vtrace_in_memory(const VtraceInput& input, const VtraceOptions& options) {
  const at::Tensor log_ratio = input.log_ratio.contiguous(), reward = input.reward.contiguous(),
                   discount = input.discount.contiguous(), value = input.value.contiguous(),
                   next = input.next.defined() ? input.next.contiguous() : at::Tensor();
  VtraceTargets targets{.value_target = at::empty(reward.sizes(), reward.options()),
                        .advantage = at::empty(reward.sizes(), reward.options())};
  vtrace(VtraceNumbers<Real>{.steps = reward.size(0),
                             .rows = next.defined() ? 1 : reward.size(1),
                             .log_ratio = log_ratio.const_data_ptr<Real>(),
                             .reward = reward.const_data_ptr<Real>(),
                             .discount = discount.const_data_ptr<Real>(),
                             .value = value.const_data_ptr<Real>(),
                             .next = next.defined() ? next.const_data_ptr<std::int64_t>() : nullptr,
                             .value_target = targets.value_target.data_ptr<Real>(),
                             .advantage = targets.advantage.data_ptr<Real>()},
         options);
  return targets;
}

// Decisions may have any number of values beyond them, fragments exactly one row.
void require_shapes(const VtraceInput& input) {
  const std::int64_t steps = input.reward.size(0);
  const bool fits = input.next.defined() ? input.reward.dim() == 1 && input.next.sizes() == input.reward.sizes() &&
                                               input.value.dim() == 1 && input.value.size(0) >= steps
                                         : input.value.dim() == 2 && input.value.size(0) == steps + 1 &&
                                               input.value.size(1) == input.reward.size(1);
  TANDEM_CHECK(
      fits && input.log_ratio.sizes() == input.reward.sizes() && input.discount.sizes() == input.reward.sizes(),
      "V-trace of rewards ", input.reward.sizes(), ", values ", input.value.sizes());
}

VtraceInput in_memory(const VtraceInput& input) {
  const auto to_cpu = [](const at::Tensor& tensor) { return tensor.to(at::kCPU); };
  return {.log_ratio = to_cpu(input.log_ratio),
          .reward = to_cpu(input.reward),
          .discount = to_cpu(input.discount),
          .value = to_cpu(input.value),
          .next = to_cpu(input.next)};
}

}  // namespace

// Chooses the way by where the tensors are: a loop over memory on the CPU, and tensor operations elsewhere or for other
// types. Decisions of a device are traced on the host and their targets brought back, which waits for the device.
VtraceTargets vtrace(const VtraceInput& input, const VtraceOptions& options) {
  const at::NoGradGuard no_grad;
  require_shapes(input);
  if (input.next.defined() && !input.value.is_cpu()) {
    const VtraceTargets targets = vtrace(in_memory(input), options);
    return {.value_target = targets.value_target.to(input.value.device()),
            .advantage = targets.advantage.to(input.value.device())};
  }
  if (input.value.is_cpu() && input.value.scalar_type() == at::kFloat) return vtrace_in_memory<float>(input, options);
  if (input.value.is_cpu() && input.value.scalar_type() == at::kDouble) return vtrace_in_memory<double>(input, options);
  return vtrace_by_operations(input, options);
}

VtraceTargets vtrace_by_operations(const VtraceInput& input, const VtraceOptions& options) {
  TANDEM_CHECK(!input.next.defined(), "decisions of ", input.reward.scalar_type(), " are not traced by operations");
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

// Backwards, so that each row finds the target of the row that follows it: the row of the next step, or, of decisions,
// the row that `next` names. A row beyond the last one has its value as target; no row (-1) is worth nothing.
template <typename Real>
void vtrace(const VtraceNumbers<Real>& numbers, const VtraceOptions& options) {
  const std::int64_t count = numbers.steps * numbers.rows;
  for (std::int64_t i = count - 1; i >= 0; --i) {
    const std::int64_t next = numbers.next != nullptr ? numbers.next[i] : i + numbers.rows;
    const double ratio = std::exp(double{numbers.log_ratio[i]});
    const double value = numbers.value[i], next_value = next < 0 ? 0 : numbers.value[next];
    const double next_target = next < 0 || next >= count ? next_value : numbers.value_target[next];
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
