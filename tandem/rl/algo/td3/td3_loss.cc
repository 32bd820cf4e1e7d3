#include "tandem/rl/algo/td3/td3_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tandem::rl {

// Both terms of noise are cut: the noise itself, and then the action at its bounds.
learner::ShardLoss td3_critic_loss(Td3Policy& policy, const Td3Targets& targets, std::span<const std::size_t> chosen,
                                   const TransitionRows& rows, const Td3Options& options, OffPolicySums& sums,
                                   std::vector<float>* errors) {
  at::Tensor target;
  {
    const at::NoGradGuard no_grad;
    const double most = options.target_noise_clip;
    const at::Tensor noise = (rows.noise.at(0) * options.target_noise).clamp(-most, most);
    const at::Tensor next = (at::tanh(targets.actor->forward(rows.next_observation)) + noise).clamp(-1, 1);
    ActionValues& critics = *targets.critics;
    target = rows.reward +
             rows.discount * critics.forward_dropped(critics.encode(rows.next_observation), next, chosen).amin(0);
  }
  ActionValues& critics = policy.critics();
  const at::Tensor values = critics.forward_dropped(critics.encode(rows.observation), rows.action);
  const at::Tensor loss = ((values - target).square() * rows.weight).mean(1).sum();
  return critic_result(loss, values, (values - target).abs().mean(0), sums, errors);
}

// The critics' features are constants here: a torso of theirs learns from their own loss alone.
learner::ShardLoss td3_policy_loss(Td3Policy& policy, const TransitionRows& rows, OffPolicySums& sums) {
  ActionValues& critics = policy.critics();
  at::Tensor features;
  {
    const at::NoGradGuard no_grad;
    features = critics.encode(rows.observation);
  }
  const at::Tensor loss = -critics.forward_frozen(features, policy.action(rows.observation))[0].mean();
  const auto count = static_cast<double>(rows.reward.size(0));
  const double mean = loss.item<double>();
  sums.policy_rows += count;
  sums.policy_loss += count * mean;
  return {.loss = loss, .weight = count, .outputs = {}, .parts = {{{"policy_loss", mean}}}};
}

}  // namespace tandem::rl
