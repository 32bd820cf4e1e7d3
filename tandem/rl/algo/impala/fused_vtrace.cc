#include "tandem/rl/algo/impala/fused_vtrace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tandem/base/check.h"

// The plan of run(), for IMPALA and APPO:
// 1. go forward over all rows, block by block, for log pi and V (APPO: V of the policy, and log pi_T of the target);
// 2. trace backwards over the trajectory for targets and advantages;
// 3. go forward again, now with the derivative of each row's loss, and backward for the gradients (differentiate()).
// Sums are in double and in the order of the rows, so the bits do not depend on the size of a block.
namespace tandem::rl {
namespace {

FusedRows rows_of(const TrajectoryView& seen) {
  return {.observation = seen.observation, .action = seen.action, .action_mask = seen.action_mask};
}

// Calls visit(first, samples) for the blocks of the rows begin .. end.
template <typename Visit>
void each_block(std::int64_t begin, std::int64_t end, const Visit& visit) {
  for (std::int64_t first = begin; first < end; first += kBlock) visit(first, std::min(kBlock, end - first));
}

template <typename Real>
void take_block(FusedBlock<Real>& block, std::int64_t first, std::int64_t samples) {
  for (std::int64_t i = 0; i < samples; ++i) block.take(i, first + i);
  block.forward(samples);
}

// Writes V of the rows begin .. end.
template <typename Real>
void evaluate_values(FusedBlock<Real>& block, std::int64_t begin, std::int64_t end, std::vector<double>& value) {
  each_block(begin, end, [&](std::int64_t first, std::int64_t samples) {
    for (std::int64_t i = 0; i < samples; ++i) block.take_observation(i, first + i);
    block.forward_values(samples);
    std::copy_n(block.value(), samples, value.begin() + first);
  });
}

struct Sums {
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, cut = 0;
};

// Goes forward and backward over the rows that are learned from. policy_part(row, log_prob, sums) is the policy's part
// of one row: it adds the row's numbers and returns the derivative of the loss with respect to log pi(a|s). The parts
// of value and entropy are the same for both losses and are computed here. Each derivative belongs to the sum over
// rows; the learner divides by the weight.
template <typename Real, typename PolicyPart>
Sums differentiate(FusedBlock<Real>& block, const TrajectoryView& seen, const VtraceMemory& trace,
                   const ImpalaOptions& options, const PolicyPart& policy_part) {
  const std::int64_t count = seen.count();
  Sums sums;
  block.begin(rows_of(seen));
  each_block(0, count, [&](std::int64_t first, std::int64_t samples) {
    take_block(block, first, samples);
    for (std::int64_t i = 0; i < samples; ++i) {
      const auto row = static_cast<std::size_t>(first + i);
      block.of_log_prob()[i] = static_cast<Real>(policy_part(row, block.log_prob()[i], sums));
      block.of_entropy()[i] = static_cast<Real>(-options.entropy_coef);
      sums.entropy += block.entropy()[i];
      const double error = block.value()[i] - trace.value_target[row];
      sums.value_loss += error * error;
      block.value()[i] = static_cast<Real>(2 * error * options.value_coef);
    }
    block.backward(samples);
  });
  block.finish();
  return sums;
}

// The variance of number(i) for i from 0 to count.
// Two passes: the difference of power sums would lose digits when the variance is small.
template <typename Number>
double variance(std::size_t count, const Number& number) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < count; ++i) sum += number(i);
  const double mean = sum / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) squares += (number(i) - mean) * (number(i) - mean);
  return squares / static_cast<double>(count);
}

template <typename Real>
learner::WrittenLoss loss_of(const Sums& sums, const VtraceMemory& trace, const ImpalaOptions& options,
                             ImpalaNumbers& numbers) {
  const std::size_t rows = trace.advantage.size();
  const auto count = static_cast<double>(rows);
  const double of_targets = variance(rows, [&](std::size_t i) { return trace.value_target[i]; });
  const double of_errors = variance(rows, [&](std::size_t i) { return trace.value_target[i] - trace.value[i]; });
  numbers = {
      .rows = static_cast<std::int64_t>(rows),
      .policy_loss = sums.policy_loss / count,
      .value_loss = sums.value_loss / count,
      .entropy = sums.entropy / count,
      .approx_kl = sums.approx_kl / count,
      .cut = sums.cut / count,
      .explained_variance = of_targets > 0 ? 1 - of_errors / of_targets : std::numeric_limits<double>::quiet_NaN()};
  const double loss =
      numbers.policy_loss + options.value_coef * numbers.value_loss - options.entropy_coef * numbers.entropy;
  // As a Real, so that a loss beyond its range is said to be one.
  return {.loss = static_cast<Real>(loss), .weight = count};
}

}  // namespace

template <typename Real>
void VtraceMemory::take(const TrajectoryView& seen, double gamma) {
  steps = seen.steps;
  rows = seen.rows;
  next = seen.next.defined() ? memory_of<std::int64_t>(seen.next, "next") : nullptr;
  const auto count = static_cast<std::size_t>(seen.count()), beyond = static_cast<std::size_t>(seen.beyond);
  const Real* log_probs = memory_of<Real>(seen.log_prob, "log_prob");
  const Real* rewards = memory_of<Real>(seen.reward, "reward");
  const auto* dones = memory_of<std::uint8_t>(seen.done, "done");
  for (std::vector<double>* each : {&acted, &reward, &discount, &log_ratio, &value_target, &advantage, &value}) {
    // Batches differ in their number of decisions, so there is room to spare: memory seldom grows.
    if (next != nullptr && each->capacity() < count + beyond) each->reserve(2 * (count + beyond));
    each->resize(each == &value ? count + beyond : count);
  }
  std::copy_n(log_probs, count, acted.begin());
  std::copy_n(rewards, count, reward.begin());
  std::transform(dones, dones + count, discount.begin(), [gamma](std::uint8_t done) { return done != 0 ? 0 : gamma; });
}

void VtraceMemory::trace(const ImpalaOptions& options) {
  vtrace(VtraceNumbers<double>{.steps = steps,
                               .rows = rows,
                               .log_ratio = log_ratio.data(),
                               .reward = reward.data(),
                               .discount = discount.data(),
                               .value = value.data(),
                               .next = next,
                               .value_target = value_target.data(),
                               .advantage = advantage.data()},
         {.rho_clip = options.rho_clip, .c_clip = options.c_clip, .policy_rho_clip = options.rho_clip});
}

// First a pass forward for log pi and V of all rows, then V-trace, then differentiate(), which computes the rows again.
template <typename Real>
learner::WrittenLoss FusedImpala<Real>::run(const learner::ShardRows& rows, const ImpalaOptions& options,
                                            ImpalaNumbers& numbers) {
  take_view(rows.columns, rows.states, seen_);
  const TrajectoryView& seen = seen_;
  trace_.take<Real>(seen, options.gamma);
  const std::int64_t count = seen.count();
  block_.begin(rows_of(seen));
  each_block(0, count, [&](std::int64_t first, std::int64_t samples) {
    take_block(block_, first, samples);
    std::copy_n(block_.log_prob(), samples, trace_.log_ratio.begin() + first);
    std::copy_n(block_.value(), samples, trace_.value.begin() + first);
  });
  evaluate_values(block_, count, count + seen.beyond, trace_.value);  // of the rows that only bootstrap
  for (std::size_t i = 0; i < trace_.acted.size(); ++i) trace_.log_ratio[i] -= trace_.acted[i];
  trace_.trace(options);
  const auto policy_part = [&](std::size_t row, double log_prob, Sums& sums) {
    const double log_ratio = trace_.log_ratio[row], ratio = std::exp(log_ratio);
    sums.policy_loss -= trace_.advantage[row] * log_prob;
    sums.approx_kl += ratio - 1 - log_ratio;
    sums.cut += ratio > options.rho_clip ? 1 : 0;
    return -trace_.advantage[row];
  };
  return loss_of<Real>(differentiate(block_, seen, trace_, options, policy_part), trace_, options, numbers);
}

// As FusedImpala, but log pi_T of the target goes into V-trace, and log pi is only needed in the second pass.
template <typename Real>
learner::WrittenLoss FusedAppo<Real>::run(const learner::ShardRows& rows, const ImpalaOptions& options,
                                          const AppoOptions& appo, ImpalaNumbers& numbers) {
  TANDEM_CHECK(appo.kl_coef == 0, "kl_coef is ", appo.kl_coef, " and has no kernels");
  take_view(rows.columns, rows.states, seen_);
  const TrajectoryView& seen = seen_;
  trace_.take<Real>(seen, options.gamma);
  const std::int64_t count = seen.count();
  block_.begin(rows_of(seen));
  evaluate_values(block_, 0, count + seen.beyond, trace_.value);
  if (seen.next.defined()) before_.reserve(trace_.acted.capacity());
  before_.resize(static_cast<std::size_t>(count));
  target_.begin(rows_of(seen));
  each_block(0, count, [&](std::int64_t first, std::int64_t samples) {
    take_block(target_, first, samples);
    std::copy_n(target_.log_prob(), samples, before_.begin() + first);
  });
  for (std::size_t i = 0; i < before_.size(); ++i) trace_.log_ratio[i] = before_[i] - trace_.acted[i];
  trace_.trace(options);
  const auto policy_part = [&](std::size_t row, double log_prob, Sums& sums) {
    const double correction = std::min(kMostCorrection, std::exp(-trace_.log_ratio[row]));
    const double ratio = correction * std::exp(log_prob - trace_.acted[row]), advantage = trace_.advantage[row];
    const double plain = ratio * advantage,
                 near = std::clamp(ratio, 1 - appo.clip_range, 1 + appo.clip_range) * advantage;
    const double log_ratio = log_prob - before_[row];
    sums.policy_loss -= std::min(plain, near);
    sums.approx_kl += std::exp(log_ratio) - 1 - log_ratio;
    sums.cut += std::abs(ratio - 1) > appo.clip_range ? 1 : 0;
    return near < plain ? 0.0 : -plain;  // where the clipped term is the smaller one, the ratio does not count
  };
  return loss_of<Real>(differentiate(block_, seen, trace_, options, policy_part), trace_, options, numbers);
}

template class FusedImpala<float>;
template class FusedImpala<double>;
template class FusedAppo<float>;
template class FusedAppo<double>;

}  // namespace tandem::rl
