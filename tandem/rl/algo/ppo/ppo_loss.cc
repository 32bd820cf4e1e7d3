#include "tandem/rl/algo/ppo/ppo_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

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

// The loss is made of these: [B] each, in the order of the rows that it has.
struct RowNumbers {
  at::Tensor log_prob, entropy, value;
};

// With a memory, `rows` become those that are learned from.
RowNumbers forward_rows(ActorCritic& policy, PpoRows& rows, const PpoOptions& options) {
  const PolicyOutput output =
      options.sequences ? forward_learned(dynamic_cast<RecurrentActorCritic&>(policy), rows, *options.sequences)
                        : policy.forward(rows.observation);
  check_value(output, rows.value_target.size(0));
  const std::unique_ptr<model::Distribution> distribution = policy.distribution(output, rows.action_mask);
  at::Tensor log_prob = distribution->log_prob(rows.action);
  return {std::move(log_prob), distribution->entropy_or_estimate(model::current_generator()), output.value};
}

// `numbers` of the result: means, in the order of kLosses. `now`: PpoConstants, as doubles or as scalars on the
// policy's device.
template <typename Number>
learner::DeviceLoss loss_of(ActorCritic& policy, PpoRows& rows, const PpoOptions& options,
                            const std::array<Number, std::tuple_size_v<PpoConstants>>& now) {
  const auto& [advantage_mean, advantage_scale, lowest_ratio, highest_ratio, clip_range, entropy_coef, kl_coef] = now;
  const RowNumbers made = forward_rows(policy, rows, options);
  const at::Tensor log_ratio = made.log_prob - rows.log_prob;
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor advantage = (rows.advantage - advantage_mean) * advantage_scale;
  const at::Tensor policy_loss =
      -at::min(advantage * ratio, advantage * ratio.clamp(lowest_ratio, highest_ratio)).mean();
  const at::Tensor value = value_loss(made.value, rows, options);
  const at::Tensor entropy = made.entropy.mean();
  at::Tensor loss = policy_loss + options.value_coef * value - entropy_coef * entropy;
  const at::Tensor kl = (ratio - 1 - log_ratio).mean();
  if (options.kl_coef > 0) loss = loss + kl_coef * kl;

  const at::NoGradGuard no_grad;
  const at::Tensor clipped = ((ratio - 1).abs() > clip_range).to(at::kFloat).mean();
  return {.loss = loss, .numbers = at::stack({policy_loss, value, entropy, kl, clipped})};
}

// The numbers that all rows of a minibatch share.
struct Coefficients {
  double clip, value, value_clip, entropy, kl;  // value_clip < 0: none
  double mean, scale;                           // of advantages
};

Coefficients coefficients_of(const PpoOptions& options, const PpoMinibatch& minibatch) {
  return {.clip = minibatch.clip_range,
          .value = options.value_coef,
          .value_clip = options.clip_range_value.value_or(-1.0),
          .entropy = options.entropy_coef,
          .kl = options.kl_coef,
          .mean = minibatch.advantage_mean,
          .scale = minibatch.advantage_scale};
}

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

// The loss row by row: what the passes without tensor operations have in common.
template <typename Real>
class RowLoss {
 public:
  RowLoss(const PpoRows& rows, const PpoOptions& options, const PpoMinibatch& minibatch)
      : with_(coefficients_of(options, minibatch)),
        old_log_prob_(memory_of<Real>(rows.log_prob, "log_prob")),
        old_value_(memory_of<Real>(rows.value, "value")),
        advantage_(memory_of<Real>(rows.advantage, "advantage")),
        value_target_(memory_of<Real>(rows.value_target, "value_target")) {}

  // Adds the row's numbers to the sums; returns the derivatives of the sum of the rows' losses.
  BlockSlopes add(std::int64_t row, const BlockSample& now) {
    sums_.entropy += now.entropy;
    return {.log_prob = surrogate(now.log_prob, old_log_prob_[row], advantage_[row], with_, sums_),
            .entropy = -with_.entropy,
            .value = value_part(now.value, old_value_[row], value_target_[row], with_, sums_)};
  }
  // The mean of `rows` rows, which becomes part of the sums.
  double mean(double rows) {
    sums_.rows = rows;
    double loss = sums_.policy_loss + with_.value * sums_.value_loss - with_.entropy * sums_.entropy;
    if (with_.kl > 0) loss += with_.kl * sums_.approx_kl;
    return loss / rows;
  }
  [[nodiscard]] const PpoSums& sums() const { return sums_; }

 private:
  const Coefficients with_;
  const Real *old_log_prob_, *old_value_, *advantage_, *value_target_;
  PpoSums sums_;
};

// The loss as one operation of autograd, whose derivatives come from the pass that computes it.
class LossInOnePass : public torch::autograd::Function<LossInOnePass> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& log_prob,
                            const at::Tensor& entropy, const at::Tensor& value, RowLoss<float>* loss) {
    const std::array<at::Tensor, 3> of_rows{log_prob.contiguous(), entropy.contiguous(), value.contiguous()};
    std::array<const float*, 3> now{};
    std::ranges::transform(of_rows, now.begin(), [](const at::Tensor& each) { return memory_of<float>(each, "made"); });
    const std::int64_t rows = log_prob.size(0);
    const at::Tensor slopes = at::empty({3, rows}, of_rows[0].options().requires_grad(false));
    auto* const to = slopes.mutable_data_ptr<float>();
    const double share = 1.0 / static_cast<double>(rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      const BlockSlopes each = loss->add(i, {.log_prob = now[0][i], .entropy = now[1][i], .value = now[2][i]});
      to[i] = static_cast<float>(share * each.log_prob);
      to[rows + i] = static_cast<float>(share * each.entropy);
      to[2 * rows + i] = static_cast<float>(share * each.value);
    }
    context->save_for_backward({slopes});
    return at::scalar_tensor(loss->mean(static_cast<double>(rows)), slopes.options());
  }
  // Autograd hands on the derivative of what is made of the loss, one number for all rows.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& of_loss) {
    const at::Tensor slopes = context->get_saved_variables()[0] * of_loss[0];
    return {slopes[0], slopes[1], slopes[2], at::Tensor()};
  }
};

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

// The pass computes sums besides the loss, so nothing is read back from tensors afterwards. A distribution of the
// user's own may give other dtypes; the loop has float32.
learner::ShardLoss ppo_loss_in_one_pass(ActorCritic& policy, const learner::ShardBatch& batch,
                                        const PpoOptions& options, const PpoMinibatch& minibatch, PpoSums& sums) {
  PpoRows rows;
  take_rows(batch.columns, batch.states, rows);
  const RowNumbers made = forward_rows(policy, rows, options);
  RowLoss<float> of_rows(rows, options, minibatch);
  const at::Tensor loss = LossInOnePass::apply(made.log_prob.to(at::kFloat), made.entropy.to(at::kFloat),
                                               made.value.to(at::kFloat), &of_rows);
  const PpoSums& mine = of_rows.sums();
  sums.add(mine);
  return {.loss = loss, .weight = mine.rows, .outputs = {}, .parts = loss_parts(mine, mine.rows)};
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
FusedPpo<Real>::FusedPpo(const ActorCritic& policy, InstructionSet set, Compute compute) {
  if (const auto* recurrent = dynamic_cast<const RecurrentPolicy*>(&policy)) {
    sequences_.emplace(*recurrent, set);
  } else {
    block_.emplace(dynamic_cast<const MlpPolicy&>(policy), set, compute);
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
  RowLoss<Real> of_rows(columns, options, minibatch);
  const auto slopes_of = [&](std::int64_t row, const BlockSample& now) { return of_rows.add(row, now); };
  auto learned = static_cast<double>(rows.rows);
  if (sequences_) {
    learned = place_sequences(rows, *options.sequences);
    if (learned == 0) return {};
    sequences_->begin(columns, columns.state, places_);
    sequences_->differentiate(slopes_of);
  } else {
    block_->begin(columns);
    block_->differentiate(
        rows.rows, [&rows](std::int64_t i) { return rows.row(i); }, slopes_of);
  }
  // As a Real, so that a loss beyond its range is said to be one, and of which shard.
  const Real loss = static_cast<Real>(of_rows.mean(learned));
  const PpoSums& mine = of_rows.sums();
  sums.add(mine);
  return {.loss = loss, .weight = mine.rows, .parts = loss_parts<Real>(mine, mine.rows)};
}

template class FusedPpo<float>;
template class FusedPpo<double>;

}  // namespace tandem::rl
