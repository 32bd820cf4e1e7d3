#include "tandem/rl/algo/impala/impala_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tandem/base/check.h"
#include "tandem/model/distribution/distribution.h"
#include "tandem/model/shard_random.h"
#include "tandem/rl/algo/loss_parts.h"
#include "tandem/rl/rollout/sequences.h"

namespace tandem::rl {
namespace {

// The pieces of T + 1 steps that gradients stay within.
std::vector<std::int64_t> pieces_of(const TrajectoryView& seen, const ImpalaOptions& options) {
  return sequence_pieces(seen.steps + 1, {.length = *options.sequence_length, .burn_in = options.burn_in});
}

// Where the steps of each environment's sequence lie. The last one only bootstraps.
void find_places(const TrajectoryView& seen, const ImpalaOptions& options, SequencePlaces& places) {
  TANDEM_CHECK(!seen.next.defined() && seen.state.defined(), "decisions are no sequences");
  places.sequences = seen.rows;
  places.steps = seen.steps + 1;
  places.acted = seen.steps;
  places.rows.clear();
  places.states.clear();
  for (std::int64_t s = 0; s < seen.rows; ++s) {
    places.states.push_back(s);
    for (std::int64_t t = 0; t <= seen.steps; ++t) places.rows.push_back(t * seen.rows + s);
  }
  places.pieces = pieces_of(seen, options);
  places.done = memory_of<std::uint8_t>(seen.done, "done");
}

// Steps of a fragment that are not learned from. They are traced all the same: what comes later does not depend on
// them.
int burnt_steps(const ImpalaOptions& options) { return options.sequence_length ? options.burn_in : 0; }

// The policy's output for all T + 1 steps. A policy that remembers runs through each environment's sequence, in pieces
// that gradients flow back through, and starts anew where an episode ended.
PolicyOutput forward(ActorCritic& policy, const TrajectoryView& seen, const ImpalaOptions& options) {
  if (!options.sequence_length) return policy.forward(seen.observation);
  return forward_in_pieces(dynamic_cast<RecurrentActorCritic&>(policy),
                           {.observation = seen.observation,
                            .state = seen.state,
                            .start = at::cat({at::zeros({1, seen.rows}, seen.done.options()), seen.done})},
                           pieces_of(seen, options));
}

// Rows that only bootstrap have a value and no distribution.
struct TrajectoryOutput {
  std::unique_ptr<model::Distribution> distribution;  // of T * N rows
  at::Tensor log_prob;                                // [T, N], of the actions taken; of decisions [C]
  at::Tensor value;                                   // [T + 1, N]; of decisions [C + B]
};

// One forward pass over all rows, the bootstrapping ones included, whose value() has gradients that losses must not
// use.
TrajectoryOutput output_of(ActorCritic& policy, const TrajectoryView& seen, const ImpalaOptions& options) {
  const std::int64_t count = seen.count(), all = count + seen.beyond;
  const PolicyOutput output = forward(policy, seen, options);
  check_value(output, all);
  const auto first_rows = [count](const at::Tensor& tensor) { return tensor.narrow(0, 0, count); };
  const at::Tensor mask = seen.action_mask.defined() ? first_rows(seen.action_mask) : at::Tensor();
  TrajectoryOutput result{.distribution = policy.distribution(map_rows(output, all, first_rows), mask),
                          .log_prob = {},
                          .value = output.value.view(seen.shape_of_values())};
  result.log_prob = result.distribution->log_prob(seen.action).view(seen.log_prob.sizes());
  return result;
}

// Calls visit(first, samples) for the blocks of the rows begin .. end.
template <typename Visit>
void each_block(std::int64_t begin, std::int64_t end, const Visit& visit) {
  for (std::int64_t first = begin; first < end; first += kBlock) visit(first, std::min(kBlock, end - first));
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

// One row's part of the policy's loss: adds its numbers and returns the derivative with respect to log pi(a|s).
double impala_part(double log_prob, std::size_t row, const VtraceMemory& trace, const ImpalaOptions& options,
                   Losses& sums) {
  const double log_ratio = trace.log_ratio[row], ratio = std::exp(log_ratio);
  sums.policy_loss -= trace.advantage[row] * log_prob;
  sums.approx_kl += ratio - 1 - log_ratio;
  sums.clip_fraction += ratio > options.rho_clip ? 1 : 0;
  return -trace.advantage[row];
}

double appo_part(double log_prob, std::size_t row, const VtraceMemory& trace, const AppoOptions& appo, Losses& sums) {
  const double correction = std::min(kMostCorrection, std::exp(-trace.log_ratio[row]));
  const double ratio = correction * std::exp(log_prob - trace.acted[row]), advantage = trace.advantage[row];
  const double plain = ratio * advantage,
               near = std::clamp(ratio, 1 - appo.clip_range, 1 + appo.clip_range) * advantage;
  const double log_ratio = log_prob - trace.corrected[row];
  sums.policy_loss -= std::min(plain, near);
  sums.approx_kl += std::exp(log_ratio) - 1 - log_ratio;
  sums.clip_fraction += std::abs(ratio - 1) > appo.clip_range ? 1 : 0;
  return near < plain ? 0.0 : -plain;  // where the clipped term is the smaller one, the ratio does not count
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

// Means of the sums over all rows but the first `burnt`, with the explained variance.
ImpalaNumbers numbers_from(const Losses& sums, const VtraceMemory& trace, std::size_t burnt) {
  const std::size_t rows = trace.advantage.size() - burnt;
  const double of_targets = variance(rows, [&](std::size_t i) { return trace.value_target[burnt + i]; });
  const double of_errors =
      variance(rows, [&](std::size_t i) { return trace.value_target[burnt + i] - trace.value[burnt + i]; });
  ImpalaNumbers means{sums};
  means /= static_cast<double>(rows);
  means.rows = static_cast<std::int64_t>(rows);
  means.explained_variance = of_targets > 0 ? 1 - of_errors / of_targets : std::numeric_limits<double>::quiet_NaN();
  return means;
}

}  // namespace

learner::ShardLoss impala_loss(ActorCritic& policy, const std::optional<AppoTarget>& appo,
                               const learner::ShardBatch& batch, const ImpalaOptions& options, ImpalaNumbers& numbers) {
  const learner::DeviceLoss made = impala_loss_on_device(policy, appo, batch, options);
  std::int64_t rows = learner::rows_of(batch.columns);
  if (const int burnt = burnt_steps(options); burnt > 0) {
    const std::int64_t environments = batch.states.front().second.size(2);
    rows -= burnt * environments;
  }
  const at::Tensor here = made.numbers.to(at::kCPU, at::kDouble);  // waits for the device
  numbers = numbers_of(rows, {here.const_data_ptr<double>(), static_cast<std::size_t>(here.numel())});
  return {.loss = made.loss, .weight = static_cast<double>(rows), .outputs = {}, .parts = loss_parts(numbers, 1)};
}

// The names follow the header: now is pi, before is pi_T, seen has mu. V-trace's targets and advantages are constants:
// vtrace() computes without gradients, from detached values. Explained variance is left as two variances, since a
// division would have to look at a number on the host.
learner::DeviceLoss impala_loss_on_device(ActorCritic& policy, const std::optional<AppoTarget>& appo,
                                          const learner::ShardBatch& batch, const ImpalaOptions& options) {
  TrajectoryView seen;
  take_view(batch.columns, batch.states, seen);
  const TrajectoryOutput now = output_of(policy, seen, options);
  TrajectoryOutput before;
  if (appo) {
    const at::NoGradGuard no_grad;
    before = output_of(appo->network, seen, options);
  }
  const at::Tensor from_acting = ((appo ? before.log_prob : now.log_prob) - seen.log_prob).detach();
  const VtraceTargets targets =
      vtrace({.log_ratio = from_acting,
              .reward = seen.reward,
              .discount = options.gamma * (1 - seen.done.to(seen.reward.scalar_type())),
              .value = now.value.detach(),
              .next = seen.next},
             {.rho_clip = options.rho_clip, .c_clip = options.c_clip, .policy_rho_clip = options.rho_clip});
  const auto learned = [&seen, burnt = burnt_steps(options)](const at::Tensor& rows) {
    return burnt == 0 ? rows : rows.view({seen.steps, seen.rows}).narrow(0, burnt, seen.steps - burnt);
  };
  const at::Tensor advantage = learned(targets.advantage), log_prob = learned(now.log_prob);
  at::Tensor policy_loss, ratio;
  if (appo) {
    const double clip = appo->options.clip_range;
    ratio = learned((-from_acting).exp().clamp_max(kMostCorrection)) * (log_prob - learned(seen.log_prob)).exp();
    const at::Tensor near = ratio.clamp(1 - clip, 1 + clip);
    policy_loss = -at::min(ratio * advantage, near * advantage).mean();
  } else {
    policy_loss = -(advantage * log_prob).mean();
  }
  const at::Tensor error = learned(targets.value_target - now.value.narrow(0, 0, seen.steps));
  const at::Tensor value_loss = error.square().mean();
  const at::Tensor entropy = learned(now.distribution->entropy_or_estimate(model::current_generator())).mean();
  at::Tensor loss = policy_loss + options.value_coef * value_loss - options.entropy_coef * entropy;
  if (appo && appo->options.kl_coef > 0)
    loss = loss + appo->options.kl_coef * learned(before.distribution->kl(*now.distribution)).mean();

  const at::NoGradGuard no_grad;
  const at::Tensor log_ratio = learned(appo ? now.log_prob - before.log_prob : from_acting);
  const at::Tensor change = log_ratio.exp();
  const at::Tensor approx_kl = (change - 1 - log_ratio).mean();
  const at::Tensor cut = appo ? (ratio - 1).abs() > appo->options.clip_range : change > options.rho_clip;
  return {.loss = loss,
          .numbers = at::stack({policy_loss, value_loss, entropy, approx_kl, cut.to(at::kFloat).mean(),
                                error.var(/*unbiased=*/false), learned(targets.value_target).var(/*unbiased=*/false)})};
}

// Weighted by rows. The mean of no rows is not a number.
ImpalaNumbers mean_of(std::span<const ImpalaNumbers> shards) {
  ImpalaNumbers mean;
  double explained = 0;  // rows of the shards that have an explained variance
  for (const ImpalaNumbers& shard : shards) {
    if (shard.rows == 0) continue;
    const auto rows = static_cast<double>(shard.rows);
    mean.rows += shard.rows;
    for (const auto& [name, loss] : kLosses) mean.*loss += rows * shard.*loss;
    // NaN means that the shard's targets were all equal, so there is no variance to explain. A NaN in any other number
    // is a fault, and must show in the mean.
    if (std::isnan(shard.explained_variance)) continue;
    mean.explained_variance += rows * shard.explained_variance;
    explained += rows;
  }
  mean /= static_cast<double>(mean.rows);
  mean.explained_variance /= explained;
  return mean;
}

ImpalaNumbers numbers_of(std::int64_t rows, std::span<const double> numbers) {
  ImpalaNumbers all;
  all.rows = rows;
  for (std::size_t i = 0; i < kLosses.size(); ++i) all.*kLosses[i].second = numbers[i];
  const double of_errors = numbers[5], of_targets = numbers[6];
  all.explained_variance = of_targets > 0 ? 1 - of_errors / of_targets : std::numeric_limits<double>::quiet_NaN();
  return all;
}

template <typename Real>
void VtraceMemory::take(const TrajectoryView& seen, double gamma) {
  steps = seen.steps;
  rows = seen.rows;
  next = seen.next.defined() ? memory_of<std::int64_t>(seen.next, "next") : nullptr;
  const auto count = static_cast<std::size_t>(seen.count()), beyond = static_cast<std::size_t>(seen.beyond);
  const Real* log_probs = memory_of<Real>(seen.log_prob, "log_prob");
  const Real* rewards = memory_of<Real>(seen.reward, "reward");
  const auto* dones = memory_of<std::uint8_t>(seen.done, "done");
  for (std::vector<double>* each :
       {&acted, &corrected, &reward, &discount, &log_ratio, &value_target, &advantage, &value}) {
    // Batches differ in their number of decisions, so there is room to spare: memory seldom grows.
    if (next != nullptr && each->capacity() < count + beyond) each->reserve(2 * (count + beyond));
    each->resize(each == &value ? count + beyond : count);
  }
  std::copy_n(log_probs, count, acted.begin());
  std::copy_n(rewards, count, reward.begin());
  std::transform(dones, dones + count, discount.begin(), [gamma](std::uint8_t done) { return done != 0 ? 0 : gamma; });
}

void VtraceMemory::trace(const ImpalaOptions& options) {
  std::ranges::transform(corrected, acted, log_ratio.begin(), std::minus());
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

template <typename Real>
FusedVtrace<Real>::FusedVtrace(const ActorCritic& policy, const ActorCritic* target, InstructionSet set,
                               Compute compute)
    : discrete_(!std::holds_alternative<Box>(policy.spec().action)), head_size_(head_size(policy.spec().action)) {
  if (const auto* recurrent = dynamic_cast<const RecurrentPolicy*>(&policy)) {
    sequences_.emplace(*recurrent, set);
    if (target != nullptr) target_sequences_.emplace(dynamic_cast<const RecurrentPolicy&>(*target), set);
  } else {
    block_.emplace(dynamic_cast<const MlpPolicy&>(policy), set, compute);
    if (target != nullptr) target_block_.emplace(dynamic_cast<const MlpPolicy&>(*target), set, compute);
  }
}

template <typename Real>
void FusedVtrace<Real>::trace_blocks(const ImpalaOptions& options) {
  const std::int64_t count = seen_.count();
  FusedBlock<Real>& corrected = target_block_ ? *target_block_ : *block_;
  block_->begin(seen_);
  if (target_block_) target_block_->begin(seen_);
  each_block(0, count, [&](std::int64_t first, std::int64_t samples) {
    for (std::int64_t i = 0; i < samples; ++i) corrected.take(i, first + i);
    corrected.forward(samples);
    std::copy_n(corrected.log_prob(), samples, trace_.corrected.begin() + first);
    for (std::int64_t i = 0; i < samples && !distributions_.empty(); ++i)
      corrected.describe(i, distributions_.data() + (first + i) * head_size_);
    if (!target_block_) std::copy_n(block_->value(), samples, trace_.value.begin() + first);
  });
  evaluate_values(*block_, target_block_ ? 0 : count, count + seen_.beyond, trace_.value);
  trace_.trace(options);
}

template <typename Real>
void FusedVtrace<Real>::trace_sequences(const ImpalaOptions& options) {
  find_places(seen_, options, places_);
  learned_.assign(static_cast<std::size_t>(seen_.count()), 1);
  std::fill_n(learned_.begin(), burnt_steps(options) * seen_.rows, std::uint8_t{0});
  places_.learned = learned_.data();
  sequences_->begin(seen_, seen_.state, places_);
  const auto correct = [this](std::int64_t row, const BlockSample& now) {
    if (row < seen_.count()) trace_.corrected[static_cast<std::size_t>(row)] = now.log_prob;
  };
  if (target_sequences_) {
    target_sequences_->begin(seen_, seen_.state, places_);
    target_sequences_->describe_to(distributions_.empty() ? nullptr : distributions_.data());
    target_sequences_->evaluate(correct);
  }
  sequences_->evaluate([&](std::int64_t row, const BlockSample& now) {
    trace_.value[static_cast<std::size_t>(row)] = now.value;
    if (!target_sequences_) correct(row, now);
  });
  trace_.trace(options);
}

// The plan, for IMPALA and APPO:
// 1. go forward over all rows, block by block, for log pi and V (APPO: V of the policy, and log pi_T of the target);
// 2. trace backwards over the trajectory for targets and advantages;
// 3. go forward again, now with the derivative of each row's loss, and backward for the gradients.
// Each derivative belongs to the sum over rows; the learner divides by the weight.
// Sums are in double. Without memory they are in the order of the rows, so their bits do not depend on the size of a
// block.
template <typename Real>
learner::WrittenLoss FusedVtrace<Real>::run(const learner::ShardRows& rows, const ImpalaOptions& options,
                                            const std::optional<AppoOptions>& appo, ImpalaNumbers& numbers) {
  const double kl_coef = appo ? appo->kl_coef : 0;
  TANDEM_CHECK(kl_coef == 0 || discrete_, "kl_coef is ", kl_coef, ", which has no kernels for continuous actions");
  take_view(rows.columns, rows.states, seen_);
  trace_.take<Real>(seen_, options.gamma);
  const std::int64_t count = seen_.count(), burnt = burnt_steps(options) * seen_.rows;
  distributions_.resize(static_cast<std::size_t>(kl_coef > 0 ? count * head_size_ : 0));
  const Real* const reference = kl_coef > 0 ? distributions_.data() : nullptr;
  Losses sums;
  double divergence = 0;
  const auto slopes_of = [&](std::int64_t at, const BlockSample& now) {
    const auto row = static_cast<std::size_t>(at);
    const double error = now.value - trace_.value_target[row];
    sums.entropy += now.entropy;
    sums.value_loss += error * error;
    divergence += now.divergence;
    return BlockSlopes{.log_prob = appo ? appo_part(now.log_prob, row, trace_, *appo, sums)
                                        : impala_part(now.log_prob, row, trace_, options, sums),
                       .entropy = -options.entropy_coef,
                       .value = 2 * error * options.value_coef,
                       .divergence = kl_coef};
  };
  if (sequences_) {
    trace_sequences(options);
    sequences_->refer_to(reference);
    sequences_->differentiate(slopes_of);
  } else {
    trace_blocks(options);
    block_->begin(seen_);
    block_->refer_to(reference);
    block_->differentiate(
        count, [](std::int64_t i) { return i; }, slopes_of);
  }
  numbers = numbers_from(sums, trace_, static_cast<std::size_t>(burnt));
  const auto weight = static_cast<double>(count - burnt);
  double loss = numbers.policy_loss + options.value_coef * numbers.value_loss - options.entropy_coef * numbers.entropy;
  if (kl_coef > 0) loss += kl_coef * divergence / weight;
  // As a Real, so that a loss beyond its range is said to be one.
  return {.loss = static_cast<Real>(loss), .weight = weight, .parts = loss_parts<Real>(numbers, 1)};
}

template class FusedVtrace<float>;
template class FusedVtrace<double>;

}  // namespace tandem::rl
