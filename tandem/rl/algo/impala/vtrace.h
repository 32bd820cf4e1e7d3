// rl/algo/impala/vtrace.h: value targets and advantages of a policy from what an older policy did.
//
// Espeholt et al., "IMPALA: scalable distributed deep-RL with importance weighted actor-learner architectures" (2018),
// section 4.1. With ratio_t = pi(a_t|x_t) / mu(a_t|x_t), rho_t = min(rho_clip, ratio_t), c_t = min(c_clip, ratio_t) and
// the discount d_t = gamma, or 0 where the episode ends with step t, the target of V(x_s) is
//
//     v_s     = V(x_s) + sum over t = s .. T-1 of  (d_s c_s)(d_{s+1} c_{s+1}) .. (d_{t-1} c_{t-1}) delta_t
//     delta_t = rho_t (r_t + d_t V(x_{t+1}) - V(x_t))
//
// computed backwards by remark 1:  v_s = V(x_s) + delta_s + d_s c_s (v_{s+1} - V(x_{s+1})),  v_T = V(x_T).
// The advantage, which log pi(a_s|x_s) is weighted with, is  min(policy_rho_clip, ratio_s) (r_s + d_s v_{s+1} -
// V(x_s)). With mu = pi and clips of at least 1, v_s is the n-step return up to the fragment's end.
//
// The end of an episode cuts the sum. A terminated episode is worth nothing from there on. Of a truncated one, r_t
// includes gamma * V(last observation), as rollout_worker.h writes it, so it is not taken for an end of the task.
//
// Threads: any; free functions on values.
//
// Agents that wait for others decide at different times. Their decisions lie one behind the other, and each is told the
// row of the same agent's next one, which takes the place of s + 1 (decision_log.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tandem::rl {

/// The largest values of the ratios of probabilities; larger ratios are cut. rho_clip decides which policy's value is
/// found, and c_clip how far back a surprise is felt; c_clip <= rho_clip, as the paper assumes.
/// 1 everywhere is the paper's choice. policy_rho_clip is the bound in the policy gradient alone.
struct VtraceOptions {
  double rho_clip = 1, c_clip = 1, policy_rho_clip = 1;
};

/// T steps of N rows, time-major, of one floating type and device. `value` [T + 1, N]: of the policy that learns; the
/// last row bootstraps. The others are [T, N].
///
/// With `next`, C decisions: `value` [C + B], of which the last B bootstrap, and the others are [C].
struct VtraceInput {
  // log pi - log mu of the actions taken.
  at::Tensor log_ratio;
  at::Tensor reward;
  // gamma, or zero where an episode ended with the step.
  at::Tensor discount;
  at::Tensor value;
  at::Tensor next = {};  // [C] int64, each further on than its own row, or -1 where the episode ends; or undefined
};

/// As rewards, constants to autograd.
/// [T, N] or, of decisions, [C]; on the device and of the type of the input.
struct VtraceTargets {
  at::Tensor value_target, advantage;
};

/// Throws InvariantError for shapes that do not fit each other.
[[nodiscard]] VtraceTargets vtrace(const VtraceInput& input, const VtraceOptions& options);

/// Computes vtrace() by tensor operations on any device, without `next`. vtrace() calls it for tensors on a device;
/// decisions with `next` are copied to the host and traced there.
[[nodiscard]] VtraceTargets vtrace_by_operations(const VtraceInput& input, const VtraceOptions& options);

/// The input and output of vtrace() in memory, float or double, with shapes as above. value_target and advantage are
/// [T, N] and are written. With `next`, steps are decisions and rows is 1.
/// Each step is computed in double, and v(s + 1) taken as it was written. Tensors that lie on the CPU are such numbers.
/// Allocates nothing and checks no sizes: the caller's memory must have them. The output may not overlap the input.
template <typename Real>
struct VtraceNumbers {
  std::int64_t steps = 0, rows = 0;
  const Real *log_ratio = nullptr, *reward = nullptr, *discount = nullptr, *value = nullptr;
  const std::int64_t* next = nullptr;
  Real *value_target = nullptr, *advantage = nullptr;
};
template <typename Real>
void vtrace(const VtraceNumbers<Real>& numbers, const VtraceOptions& options);

extern template void vtrace(const VtraceNumbers<float>& numbers, const VtraceOptions& options);
extern template void vtrace(const VtraceNumbers<double>& numbers, const VtraceOptions& options);

}  // namespace tandem::rl
