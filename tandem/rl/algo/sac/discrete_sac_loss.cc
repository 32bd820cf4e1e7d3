#include "tandem/rl/algo/sac/discrete_sac_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

namespace tandem::rl {
namespace {

constexpr double kTargetShare = 0.89;
// A logit of a choice that is forbidden. It is finite, since 0 times infinity is no number, and so low that nothing is
// left of its probability.
constexpr double kForbidden = -1e30;

// [B, choices] each.
struct Choices {
  at::Tensor probability, log_probability;
};

Choices choices_in(DiscreteSacPolicy& policy, const Observation& observation, const at::Tensor& mask) {
  at::Tensor logits = policy.actor().forward(observation);
  if (mask.defined()) logits = logits.masked_fill(mask == 0, kForbidden);
  const at::Tensor log_probability = logits.log_softmax(1);
  return {.probability = log_probability.exp(), .log_probability = log_probability};
}

// A critic is to say these numbers of the rows. Without gradients.
at::Tensor targets_of(DiscreteSacPolicy& policy, ChoiceValues& targets, const TransitionRows& rows,
                      const SacOptions& options) {
  const at::NoGradGuard no_grad;
  const auto [probability, log_probability] = choices_in(policy, rows.next_observation, rows.next_action_mask);
  const at::Tensor values = targets.forward(rows.next_observation).amin(0);
  const at::Tensor soft = (probability * (values - temperature_of(policy, options) * log_probability)).sum(1);
  return rows.reward + rows.discount * soft;
}

}  // namespace

at::Tensor temperature_of(const DiscreteSacPolicy& policy, const SacOptions& options) {
  const at::Tensor learned = policy.log_temperature().detach();
  return options.fixed_temperature ? at::full_like(learned, *options.fixed_temperature) : learned.exp();
}

// Choices that are forbidden have no part in the entropy, so they have none in what it is to be.
double target_entropy_of(const DiscreteSacPolicy& policy, const at::Tensor& mask, const SacOptions& options) {
  if (options.target_entropy) return *options.target_entropy;
  const auto all = static_cast<double>(head_size(policy.spec().action));
  return kTargetShare *
         (mask.defined() ? (mask != 0).sum(1).to(at::kDouble).log().mean().item<double>() : std::log(all));
}

// Each critic has a loss of its own, and shares nothing with the others; so their sum is one loss.
learner::ShardLoss sac_critic_loss(DiscreteSacPolicy& policy, ChoiceValues& targets, const TransitionRows& rows,
                                   const SacOptions& options, OffPolicySums& sums, std::vector<float>* errors) {
  const at::Tensor target = targets_of(policy, targets, rows, options);
  const at::Tensor all = policy.critics().forward(rows.observation);
  const at::Tensor index = rows.action.view({1, -1, 1}).expand({all.size(0), -1, 1});
  const at::Tensor values = all.gather(2, index).squeeze(2);
  const at::Tensor loss = ((values - target).square() * rows.weight).mean(1).sum() * 0.5;
  return critic_result(loss, values, (values - target).abs().mean(0), sums, errors);
}

// The entropy is a constant in the temperature's gradient, and the temperature one in the actor's.
learner::ShardLoss sac_policy_loss(DiscreteSacPolicy& policy, const TransitionRows& rows, const SacOptions& options,
                                   OffPolicySums& sums) {
  const auto [probability, log_probability] = choices_in(policy, rows.observation, rows.action_mask);
  at::Tensor values;
  {
    const at::NoGradGuard no_grad;
    values = policy.critics().forward(rows.observation).amin(0);
  }
  const at::Tensor policy_loss =
      (probability * (temperature_of(policy, options) * log_probability - values)).sum(1).mean();
  const at::Tensor entropy = -(probability * log_probability).detach().sum(1).mean();
  at::Tensor loss = policy_loss;
  if (!options.fixed_temperature)
    loss = loss + policy.log_temperature() * (entropy - target_entropy_of(policy, rows.action_mask, options));
  const auto count = static_cast<double>(rows.reward.size(0));
  const double told_loss = policy_loss.item<double>(), told_entropy = entropy.item<double>();
  sums.policy_rows += count;
  sums.policy_loss += count * told_loss;
  sums.entropy += count * told_entropy;
  return {
      .loss = loss, .weight = count, .outputs = {}, .parts = {{{"policy_loss", told_loss}, {"entropy", told_entropy}}}};
}

}  // namespace tandem::rl
