#include "tandem/rl/algo/ppo/ppo_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <tuple>

#include "tandem/base/check.h"
#include "tandem/rl/algo/entropy.h"
#include "tandem/rl/algo/ppo/ppo_rows.h"

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
  const at::Tensor entropy = entropy_of(*distribution).mean();
  at::Tensor loss = policy_loss + options.value_coef * value - entropy_coef * entropy;
  const at::Tensor kl = (ratio - 1 - log_ratio).mean();
  if (options.kl_coef > 0) loss = loss + kl_coef * kl;

  const at::NoGradGuard no_grad;
  const at::Tensor clipped = ((ratio - 1).abs() > clip_range).to(at::kFloat).mean();
  return {.loss = loss, .numbers = at::stack({policy_loss, value, entropy, kl, clipped})};
}

}  // namespace

learner::ShardLoss ppo_loss(ActorCritic& policy, const learner::ShardBatch& batch, const PpoOptions& options,
                            const PpoMinibatch& minibatch, PpoSums& sums) {
  PpoRows rows;
  take_rows(batch.columns, batch.states, rows);
  const learner::DeviceLoss made = loss_of(policy, rows, options, ppo_constants(options, minibatch));
  const at::Tensor means = made.numbers.to(at::kCPU, at::kDouble);
  const auto count = static_cast<double>(rows.log_prob.size(0));
  sums.add(ppo_sums_of(count, {means.const_data_ptr<double>(), static_cast<std::size_t>(means.numel())}));
  return {.loss = made.loss, .weight = count, .outputs = {}};
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

}  // namespace tandem::rl
