#include "tandem/rl/algo/dqn/dqn_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

namespace tandem::rl {
namespace {

// [B, numbers]: what a network tells of one action of each row.
at::Tensor of_action(const at::Tensor& returns, const at::Tensor& action) {
  const at::Tensor index = action.view({-1, 1, 1}).expand({-1, 1, returns.size(2)});
  return returns.gather(1, index).squeeze(1);
}

// The target network's numbers of the step that follows each row: [B, numbers], without gradients.
at::Tensor next_returns(DqnPolicy& policy, ReturnNetwork& target, const TransitionRows& rows, const DqnOptions& options,
                        const DqnNoise* noise) {
  const ReturnNoise *of_own = noise == nullptr ? nullptr : &noise->own,
                    *of_target = noise == nullptr ? nullptr : &noise->target;
  const at::Tensor next = target.forward(rows.next_observation, of_target);
  ReturnNetwork& own = policy.network();
  at::Tensor judged =
      options.target == DqnTarget::kDouble ? own.mean(own.forward(rows.next_observation, of_own)) : target.mean(next);
  if (rows.next_action_mask.defined())
    judged = judged.masked_fill(rows.next_action_mask == 0, -std::numeric_limits<double>::infinity());
  return of_action(next, judged.argmax(1));
}

}  // namespace

// A value that falls between two others is shared out by nearness; one that falls on a value stays whole.
at::Tensor project(const at::Tensor& probabilities, const at::Tensor& support, const at::Tensor& reward,
                   const at::Tensor& discount) {
  const std::int64_t atoms = support.size(0);
  const at::Tensor least = support[0], most = support[atoms - 1];
  const at::Tensor moved = (reward.unsqueeze(1) + discount.unsqueeze(1) * support).clamp(least, most);
  const at::Tensor place = ((moved - least) / ((most - least) / (atoms - 1))).clamp(0, atoms - 1);
  const at::Tensor below = place.floor(), above = (below + 1).clamp_max(atoms - 1);
  const at::Tensor share = place - below;
  at::Tensor projected = at::zeros_like(probabilities);
  projected = projected.scatter_add(1, below.to(at::kLong), probabilities * (1 - share));
  return projected.scatter_add(1, above.to(at::kLong), probabilities * share);
}

at::Tensor quantile_huber(const at::Tensor& quantiles, const at::Tensor& samples) {
  const std::int64_t count = quantiles.size(1);
  const at::Tensor middle = (at::arange(count, quantiles.options()) + 0.5) / count;
  const at::Tensor error = samples.unsqueeze(1) - quantiles.unsqueeze(2);  // [B, quantile, sample]
  const at::Tensor size = error.detach().abs();
  const at::Tensor huber = at::where(size <= 1, 0.5 * error.square(), error.abs() - 0.5);
  const at::Tensor tilt = (middle.view({1, -1, 1}) - (error.detach() < 0).to(quantiles.scalar_type())).abs();
  return (tilt * huber).mean(2).sum(1);
}

DqnNoise draw_noise(const ReturnNetwork& network, std::uint64_t seed) {
  Philox random(seed);
  ReturnNoise own = network.draw_noise(random);
  return {.own = std::move(own), .target = network.draw_noise(random)};
}

learner::ShardLoss dqn_loss(DqnPolicy& policy, ReturnNetwork& target, const TransitionRows& rows,
                            const DqnOptions& options, OffPolicySums& sums, std::vector<float>* errors,
                            const DqnNoise* noise) {
  ReturnNetwork& network = policy.network();
  const at::Tensor all = network.forward(rows.observation, noise == nullptr ? nullptr : &noise->own);
  const at::Tensor returns = of_action(all, rows.action);
  at::Tensor next;
  {
    const at::NoGradGuard no_grad;
    next = next_returns(policy, target, rows, options, noise);
  }
  at::Tensor each, error;  // [B]: the loss, and what priorities are made of
  if (options.returns == DqnReturn::kCategorical) {
    const at::Tensor wanted = project(next.softmax(1), network.support(), rows.reward, rows.discount);
    each = -(wanted * returns.log_softmax(1)).sum(1);
    error = each.detach();
  } else if (options.returns == DqnReturn::kQuantiles) {
    each = quantile_huber(returns, rows.reward.unsqueeze(1) + rows.discount.unsqueeze(1) * next);
    error = each.detach();
  } else {
    const at::Tensor wanted = rows.reward + rows.discount * next.squeeze(1);
    const at::Tensor difference = returns.squeeze(1) - wanted;
    error = difference.detach().abs();
    each = at::where(error <= 1, 0.5 * difference.square(), difference.abs() - 0.5);
  }
  const at::Tensor loss = (each * rows.weight).mean();
  const at::Tensor mean = of_action(network.mean(all.detach()).unsqueeze(2), rows.action);
  return critic_result(loss, mean.transpose(0, 1), error, sums, errors);
}

}  // namespace tandem::rl
