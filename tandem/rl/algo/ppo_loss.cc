#include "tandem/rl/algo/ppo_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/rl/algo/entropy.h"
#include "tandem/rl/algo/ppo_columns.h"
#include "tandem/rl/algo/ppo_sequences.h"

namespace tandem::rl {
namespace {

at::Tensor value_loss(const at::Tensor& value, const PpoRows& rows, const PpoOptions& options) {
  const at::Tensor loss = (value - rows.value_target).square();
  if (!options.clip_range_value) return loss.mean();
  const at::Tensor near =
      rows.value + (value - rows.value).clamp(-*options.clip_range_value, *options.clip_range_value);
  return at::max(loss, (near - rows.value_target).square()).mean();
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
  const PolicyOutput output =
      options.sequences ? forward_learned(dynamic_cast<RecurrentActorCritic&>(policy), rows, *options.sequences)
                        : policy.forward(rows.observation);
  const std::unique_ptr<model::Distribution> distribution = policy.distribution(output, rows.action_mask);
  const at::Tensor log_ratio = distribution->log_prob(rows.action) - rows.log_prob;
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor advantage = (rows.advantage - minibatch.advantage_mean) * minibatch.advantage_scale;
  const double clip = minibatch.clip_range;
  const at::Tensor policy_loss = -at::min(advantage * ratio, advantage * ratio.clamp(1 - clip, 1 + clip)).mean();
  const at::Tensor value = value_loss(output.value, rows, options);
  const at::Tensor entropy = entropy_of(*distribution).mean();
  at::Tensor loss = policy_loss + options.value_coef * value - options.entropy_coef * entropy;
  const at::Tensor kl = (ratio - 1 - log_ratio).mean();
  if (options.kl_coef > 0) loss = loss + options.kl_coef * kl;

  const at::NoGradGuard no_grad;
  const at::Tensor clipped = ((ratio - 1).abs() > clip).to(at::kFloat).mean();
  const at::Tensor numbers = at::stack({policy_loss, value, entropy, kl, clipped}).to(at::kCPU, at::kDouble);
  const double* number = numbers.const_data_ptr<double>();
  const auto count = static_cast<double>(rows.log_prob.size(0));
  sums.add({count, count * number[0], count * number[1], count * number[2], count * number[3], count * number[4]});
  return {.loss = loss, .weight = count, .outputs = {}};
}

}  // namespace tandem::rl
