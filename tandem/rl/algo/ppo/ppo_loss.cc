#include "tandem/rl/algo/ppo/ppo_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tandem/base/check.h"
#include "tandem/model/shard_random.h"
#include "tandem/rl/algo/loss_parts.h"

namespace tandem::rl {
namespace {

// The larger of both errors, so that clipping never makes the loss smaller.
at::Tensor value_loss(const at::Tensor& value, const PpoRows& rows, const PpoOptions& options) {
  const at::Tensor loss = (value - rows.value_target).square();
  if (!options.clip_range_value) return loss.mean();
  const at::Tensor near =
      rows.value + (value - rows.value).clamp(-*options.clip_range_value, *options.clip_range_value);
  return at::max(loss, (near - rows.value_target).square()).mean();
}

// `numbers` of the result: means, in the order of kLosses. `now`: PpoConstants, as doubles or as scalars on the
// policy's device.
template <typename Number>
learner::DeviceLoss loss_of(ActorCritic& policy, PpoRows& rows, const PpoOptions& options,
                            const std::array<Number, std::tuple_size_v<PpoConstants>>& now) {
  const auto& [advantage_mean, advantage_scale, lowest_ratio, highest_ratio, clip_range, entropy_coef, kl_coef] = now;
  const PolicyOutput output =
      options.sequences ? forward_learned(dynamic_cast<RecurrentActorCritic&>(policy), rows, *options.sequences)
                        : policy.forward(rows.observation);
  const std::unique_ptr<model::Distribution> distribution = policy.distribution(output, rows.action_mask);
  const at::Tensor log_ratio = distribution->log_prob(rows.action) - rows.log_prob;
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor advantage = (rows.advantage - advantage_mean) * advantage_scale;
  const at::Tensor policy_loss =
      -at::min(advantage * ratio, advantage * ratio.clamp(lowest_ratio, highest_ratio)).mean();
  const at::Tensor value = value_loss(output.value, rows, options);
  const at::Tensor entropy = distribution->entropy_or_estimate(model::current_generator()).mean();
  at::Tensor loss = policy_loss + options.value_coef * value - entropy_coef * entropy;
  const at::Tensor kl = (ratio - 1 - log_ratio).mean();
  if (options.kl_coef > 0) loss = loss + kl_coef * kl;

  const at::NoGradGuard no_grad;
  const at::Tensor clipped = ((ratio - 1).abs() > clip_range).to(at::kFloat).mean();
  return {.loss = loss, .numbers = at::stack({policy_loss, value, entropy, kl, clipped})};
}

// The numbers that all rows of a minibatch share.
struct Coefficients {
  double clip, value, value_clip, kl;  // value_clip < 0: none
  double mean, scale;                  // of advantages
};

// The policy's part of one row: adds its numbers and returns the derivative of the loss with respect to log pi(a|s).
double surrogate(double log_prob, double old_log_prob, double raw_advantage, const Coefficients& c, PpoSums& sums) {
  const double log_ratio = log_prob - old_log_prob, ratio = std::exp(log_ratio);
  const double advantage = (raw_advantage - c.mean) * c.scale;
  const double clipped = std::clamp(ratio, 1 - c.clip, 1 + c.clip);
  const double plain = advantage * ratio, limited = advantage * clipped;
  sums.policy_loss -= std::min(plain, limited);
  sums.approx_kl += ratio - 1 - log_ratio;
  sums.clip_fraction += std::abs(ratio - 1) > c.clip ? 1 : 0;
  // Where the clipped term is the smaller one, the ratio does not count.
  const double clipped_slope = limited < plain ? 0.0 : -advantage * ratio;
  return c.kl > 0 ? clipped_slope + c.kl * (ratio - 1) : clipped_slope;
}

// The value's part of one row: adds the loss and returns its derivative.
double value_part(double value, double old_value, double target, const Coefficients& c, PpoSums& sums) {
  const double error = value - target, plain = error * error, change = value - old_value;
  if (c.value_clip >= 0 && std::abs(change) > c.value_clip) {
    const double near = old_value + std::clamp(change, -c.value_clip, c.value_clip);
    const double limited = (near - target) * (near - target);
    sums.value_loss += std::max(plain, limited);
    if (limited > plain) return 0;
  } else {
    sums.value_loss += plain;
  }
  return 2 * error * c.value;
}

}  // namespace

learner::ShardLoss ppo_loss(ActorCritic& policy, const learner::ShardBatch& batch, const PpoOptions& options,
                            const PpoMinibatch& minibatch, PpoSums& sums) {
  PpoRows rows;
  take_rows(batch.columns, batch.states, rows);
  const learner::DeviceLoss made = loss_of(policy, rows, options, ppo_constants(options, minibatch));
  const at::Tensor means = made.numbers.to(at::kCPU, at::kDouble);
  const auto count = static_cast<double>(rows.log_prob.size(0));
  const PpoSums mine = ppo_sums_of(count, {means.const_data_ptr<double>(), static_cast<std::size_t>(means.numel())});
  sums.add(mine);
  return {.loss = made.loss, .weight = count, .outputs = {}, .parts = loss_parts(mine, count)};
}

learner::DeviceLoss ppo_loss_on_device(ActorCritic& policy, const learner::ShardBatch& batch, const PpoOptions& options,
                                       const at::Tensor& constants) {
  PpoRows rows;
  take_rows(batch.columns, batch.states, rows);
  // In the precision that a number on the host would be taken in.
  const at::Tensor each = constants.to(rows.advantage.scalar_type());
  std::array<at::Tensor, std::tuple_size_v<PpoConstants>> now;
  TANDEM_CHECK(each.size(0) == std::ssize(now), each.size(0), " constants");
  std::ranges::move(each.unbind(), now.begin());
  return loss_of(policy, rows, options, now);
}

PpoConstants ppo_constants(const PpoOptions& options, const PpoMinibatch& minibatch) {
  const double clip = minibatch.clip_range;
  return {minibatch.advantage_mean, minibatch.advantage_scale, 1 - clip, 1 + clip, clip, options.entropy_coef,
          options.kl_coef};
}

PpoSums ppo_sums_of(double rows, std::span<const double> means) {
  PpoSums sums;
  sums.rows = rows;
  for (std::size_t i = 0; i < kLosses.size(); ++i) sums.*kLosses[i].second = rows * means[i];
  return sums;
}

template <typename Real>
FusedPpo<Real>::FusedPpo(const ActorCritic& policy, InstructionSet set) {
  if (const auto* recurrent = dynamic_cast<const RecurrentPolicy*>(&policy)) {
    sequences_.emplace(*recurrent, set);
  } else {
    block_.emplace(dynamic_cast<const MlpPolicy&>(policy), set);
  }
}

// A minibatch has whole sequences, one behind the other. In the shard's columns they follow each other, too, so that
// sequence k has the k-th state.
template <typename Real>
double FusedPpo<Real>::place_sequences(const learner::ShardRows& rows, const SequenceOptions& options) {
  places_.steps = places_.acted = columns_.done.size(0) / columns_.state.size(0);
  places_.sequences = rows.rows / places_.steps;
  places_.rows.resize(static_cast<std::size_t>(rows.rows));
  places_.states.resize(static_cast<std::size_t>(places_.sequences));
  places_.pieces = sequence_pieces(places_.steps, options);
  places_.done = memory_of<std::uint8_t>(columns_.done, kDoneColumn);
  places_.learned = memory_of<std::uint8_t>(columns_.learned, kLearnedColumn);
  double learned = 0;
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    const std::int64_t row = rows.row(i);
    places_.rows[static_cast<std::size_t>(i)] = row;
    if (i % places_.steps == 0) places_.states[static_cast<std::size_t>(i / places_.steps)] = row / places_.steps;
    learned += places_.learned[row] != 0 ? 1 : 0;
  }
  return learned;
}

// The sums run over the rows in their order, or step by step over a block's sequences. Derivatives are those of the
// loss times its number of rows: gradients of shards can then be added, and are divided by all rows at the end.
template <typename Real>
learner::WrittenLoss FusedPpo<Real>::run(const learner::ShardRows& rows, const PpoOptions& options,
                                         const PpoMinibatch& minibatch, PpoSums& sums) {
  if (rows.rows == 0) return {};  // of uneven fragments
  take_rows(rows.columns, rows.states, columns_);
  const PpoRows& columns = columns_;
  const Real* old_log_prob = memory_of<Real>(columns.log_prob, "log_prob");
  const Real* old_value = memory_of<Real>(columns.value, "value");
  const Real* advantage = memory_of<Real>(columns.advantage, "advantage");
  const Real* value_target = memory_of<Real>(columns.value_target, "value_target");
  const Coefficients c{.clip = minibatch.clip_range,
                       .value = options.value_coef,
                       .value_clip = options.clip_range_value.value_or(-1.0),
                       .kl = options.kl_coef,
                       .mean = minibatch.advantage_mean,
                       .scale = minibatch.advantage_scale};
  PpoSums mine;
  const auto slopes_of = [&](std::int64_t row, const BlockSample& now) {
    mine.entropy += now.entropy;
    return BlockSlopes{.log_prob = surrogate(now.log_prob, old_log_prob[row], advantage[row], c, mine),
                       .entropy = -options.entropy_coef,
                       .value = value_part(now.value, old_value[row], value_target[row], c, mine)};
  };
  if (sequences_) {
    mine.rows = place_sequences(rows, *options.sequences);
    sequences_->begin(columns, columns.state, places_);
    sequences_->differentiate(slopes_of);
  } else {
    mine.rows = static_cast<double>(rows.rows);
    block_->begin(columns);
    block_->differentiate(
        rows.rows, [&rows](std::int64_t i) { return rows.row(i); }, slopes_of);
  }
  sums.add(mine);
  double loss = mine.policy_loss + options.value_coef * mine.value_loss - options.entropy_coef * mine.entropy;
  if (options.kl_coef > 0) loss += options.kl_coef * mine.approx_kl;
  // As a Real, so that a loss beyond its range is said to be one, and of which shard.
  return {.loss = static_cast<Real>(loss / mine.rows), .weight = mine.rows, .parts = loss_parts<Real>(mine, mine.rows)};
}

template class FusedPpo<float>;
template class FusedPpo<double>;

}  // namespace tandem::rl
