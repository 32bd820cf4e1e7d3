#include "tandem/rl/algo/sac/sac_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tandem::rl {
namespace {

// A critic is to say these numbers of the rows. Without gradients.
at::Tensor targets_of(SacPolicy& policy, ActionValues& targets, std::span<const std::size_t> chosen,
                      const TransitionRows& rows, const SacOptions& options) {
  const at::NoGradGuard no_grad;
  const model::Draw next = policy.actions(rows.next_observation).draw_of(rows.noise.at(0));
  const at::Tensor values =
      targets.forward_dropped(targets.encode(rows.next_observation), next.actions, chosen).amin(0);
  return rows.reward + rows.discount * (values - temperature_of(policy, options) * next.log_prob);
}

}  // namespace

at::Tensor temperature_of(const SacPolicy& policy, const SacOptions& options) {
  const at::Tensor learned = policy.log_temperature().detach();
  return options.fixed_temperature ? at::full_like(learned, *options.fixed_temperature) : learned.exp();
}

double target_entropy_of(const SacPolicy& policy, const SacOptions& options) {
  return options.target_entropy.value_or(-static_cast<double>(action_elements(policy.spec().action)));
}

// Each critic has a loss of its own, and shares nothing with the others; so their sum is one loss.
learner::ShardLoss sac_critic_loss(SacPolicy& policy, ActionValues& targets, std::span<const std::size_t> chosen,
                                   const TransitionRows& rows, const SacOptions& options, OffPolicySums& sums,
                                   std::vector<float>* errors) {
  const at::Tensor target = targets_of(policy, targets, chosen, rows, options);
  ActionValues& critics = policy.critics();
  const at::Tensor values = critics.forward_dropped(critics.encode(rows.observation), rows.action);
  const at::Tensor loss = ((values - target).square() * rows.weight).mean(1).sum() * 0.5;
  return critic_result(loss, values, (values - target).abs().mean(0), sums, errors);
}

// The temperature's surplus is a constant in the actor's gradient, and the draw one in the temperature's.
learner::ShardLoss sac_policy_loss(SacPolicy& policy, const TransitionRows& rows, const SacOptions& options,
                                   OffPolicySums& sums) {
  const model::Draw draw = policy.actions(rows.observation).draw_of(rows.noise.at(1));
  ActionValues& critics = policy.critics();
  at::Tensor features;
  {
    const at::NoGradGuard no_grad;
    features = critics.encode(rows.observation);
  }
  const at::Tensor all = critics.forward_frozen(features, draw.actions);
  const at::Tensor values = options.actor_value == ActorValue::kMean ? all.mean(0) : all.amin(0);
  const at::Tensor policy_loss = (temperature_of(policy, options) * draw.log_prob - values).mean();
  at::Tensor loss = policy_loss;
  if (!options.fixed_temperature) {
    const at::Tensor surplus = draw.log_prob.detach() + target_entropy_of(policy, options);
    loss = loss - (policy.log_temperature() * surplus).mean();
  }
  const auto count = static_cast<double>(rows.reward.size(0));
  const double entropy = -draw.log_prob.detach().mean().item<double>();
  sums.policy_rows += count;
  sums.policy_loss += count * policy_loss.item<double>();
  sums.entropy += count * entropy;
  return {.loss = loss,
          .weight = count,
          .outputs = {},
          .parts = {{{"policy_loss", policy_loss.item<double>()}, {"entropy", entropy}}}};
}

}  // namespace tandem::rl
