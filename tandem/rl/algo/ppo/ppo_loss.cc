#include "tandem/rl/algo/ppo/ppo_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <tuple>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/rl/algo/entropy.h"
#include "tandem/rl/algo/ppo/ppo_columns.h"
#include "tandem/rl/algo/ppo/ppo_sequences.h"

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

// The numbers that may change from step to step: doubles, or scalars on the policy's device.
template <typename Number>
struct Changing {
  Number advantage_mean, advantage_scale;
  Number lowest_ratio, highest_ratio;  // 1 - clip_range and 1 + clip_range
  Number clip_range;
  Number entropy_coef, kl_coef;
};

// From PpoConstants, in their order.
template <typename Number>
Changing<Number> changing_of(std::span<const Number> each) {
  return {.advantage_mean = each[0],
          .advantage_scale = each[1],
          .lowest_ratio = each[2],
          .highest_ratio = each[3],
          .clip_range = each[4],
          .entropy_coef = each[5],
          .kl_coef = each[6]};
}

// `numbers` of the result: means of policy loss, value loss, entropy, KL and the share of clipped ratios.
template <typename Number>
learner::DeviceLoss loss_of(ActorCritic& policy, PpoRows& rows, const PpoOptions& options,
                            const Changing<Number>& now) {
  const PolicyOutput output =
      options.sequences ? forward_learned(dynamic_cast<RecurrentActorCritic&>(policy), rows, *options.sequences)
                        : policy.forward(rows.observation);
  const std::unique_ptr<model::Distribution> distribution = policy.distribution(output, rows.action_mask);
  const at::Tensor log_ratio = distribution->log_prob(rows.action) - rows.log_prob;
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor advantage = (rows.advantage - now.advantage_mean) * now.advantage_scale;
  const at::Tensor policy_loss =
      -at::min(advantage * ratio, advantage * ratio.clamp(now.lowest_ratio, now.highest_ratio)).mean();
  const at::Tensor value = value_loss(output.value, rows, options);
  const at::Tensor entropy = entropy_of(*distribution).mean();
  at::Tensor loss = policy_loss + options.value_coef * value - now.entropy_coef * entropy;
  const at::Tensor kl = (ratio - 1 - log_ratio).mean();
  if (options.kl_coef > 0) loss = loss + now.kl_coef * kl;

  const at::NoGradGuard no_grad;
  const at::Tensor clipped = ((ratio - 1).abs() > now.clip_range).to(at::kFloat).mean();
  return {.loss = loss, .numbers = at::stack({policy_loss, value, entropy, kl, clipped})};
}

}  // namespace

void PpoSums::add(const PpoSums& other) {
  rows += other.rows;
  policy_loss += other.policy_loss;
  value_loss += other.value_loss;
  entropy += other.entropy;
  approx_kl += other.approx_kl;
  clipped += other.clipped;
}

learner::ShardLoss ppo_loss(ActorCritic& policy, const learner::ShardBatch& batch, const PpoOptions& options,
                            const PpoMinibatch& minibatch, PpoSums& sums) {
  PpoRows rows = ppo_rows(batch.columns, batch.states);
  const PpoConstants constants = ppo_constants(options, minibatch);
  const learner::DeviceLoss made = loss_of(policy, rows, options, changing_of<double>(constants));
  const at::Tensor means = made.numbers.to(at::kCPU, at::kDouble);
  const auto count = static_cast<double>(rows.log_prob.size(0));
  sums.add(ppo_sums_of(count, {means.const_data_ptr<double>(), static_cast<std::size_t>(means.numel())}));
  return {.loss = made.loss, .weight = count, .outputs = {}};
}

learner::DeviceLoss ppo_loss_on_device(ActorCritic& policy, const learner::ShardBatch& batch, const PpoOptions& options,
                                       const at::Tensor& constants) {
  PpoRows rows = ppo_rows(batch.columns, batch.states);
  // In the precision that a number on the host would be taken in.
  const std::vector<at::Tensor> each = constants.to(rows.advantage.scalar_type()).unbind();
  TANDEM_CHECK(each.size() == std::tuple_size_v<PpoConstants>, each.size(), " constants");
  return loss_of(policy, rows, options, changing_of<at::Tensor>(each));
}

PpoConstants ppo_constants(const PpoOptions& options, const PpoMinibatch& minibatch) {
  const double clip = minibatch.clip_range;
  return {minibatch.advantage_mean, minibatch.advantage_scale, 1 - clip, 1 + clip, clip, options.entropy_coef,
          options.kl_coef};
}

PpoSums ppo_sums_of(double rows, std::span<const double> means) {
  return {rows, rows * means[0], rows * means[1], rows * means[2], rows * means[3], rows * means[4]};
}

}  // namespace tandem::rl
