#include "tandem/rl/algo/impala/appo_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/rl/algo/entropy.h"
#include "tandem/rl/algo/impala/trajectory_output.h"
#include "tandem/rl/algo/impala/vtrace.h"

namespace tandem::rl {
namespace {

// The target's output, without gradients.
TrajectoryOutput constant_output(ActorCritic& target, const TrajectoryView& seen, const ImpalaOptions& options) {
  const at::NoGradGuard no_grad;
  return output_of(target, seen, options);
}

}  // namespace

learner::ShardLoss appo_loss(ActorCritic& policy, ActorCritic& target, const learner::ShardBatch& batch,
                             const ImpalaOptions& options, const AppoOptions& appo, ImpalaNumbers& numbers) {
  return read_numbers(appo_loss_on_device(policy, target, batch, options, appo), learner::rows_of(batch.columns),
                      numbers);
}

// The names follow the header: now is pi, before is pi_T, seen has mu. approx_kl compares the two networks that the
// learner has, pi_T and pi.
learner::DeviceLoss appo_loss_on_device(ActorCritic& policy, ActorCritic& target, const learner::ShardBatch& batch,
                                        const ImpalaOptions& options, const AppoOptions& appo) {
  const TrajectoryView seen = trajectory_view(batch.columns, batch.states);
  const TrajectoryOutput now = output_of(policy, seen, options), before = constant_output(target, seen, options);
  const VtraceTargets targets =
      vtrace({.log_ratio = before.log_prob - seen.log_prob,
              .reward = seen.reward,
              .discount = options.gamma * (1 - seen.done.to(seen.reward.scalar_type())),
              .value = now.value.detach(),
              .next = seen.next},
             {.rho_clip = options.rho_clip, .c_clip = options.c_clip, .policy_rho_clip = options.rho_clip});
  const at::Tensor correction = (seen.log_prob - before.log_prob).exp().clamp_max(kMostCorrection);
  const at::Tensor ratio = correction * (now.log_prob - seen.log_prob).exp();
  const at::Tensor near = ratio.clamp(1 - appo.clip_range, 1 + appo.clip_range);
  const at::Tensor policy_loss = -at::min(ratio * targets.advantage, near * targets.advantage).mean();
  const at::Tensor error = targets.value_target - now.value.narrow(0, 0, seen.steps);
  const at::Tensor value_loss = error.square().mean();
  const at::Tensor entropy = entropy_of(*now.distribution).mean();
  at::Tensor loss = policy_loss + options.value_coef * value_loss - options.entropy_coef * entropy;
  if (appo.kl_coef > 0) loss = loss + appo.kl_coef * before.distribution->kl(*now.distribution).mean();

  const at::NoGradGuard no_grad;
  const at::Tensor log_ratio = now.log_prob - before.log_prob;
  const at::Tensor approx_kl = (log_ratio.exp() - 1 - log_ratio).mean();
  const at::Tensor cut = ((ratio - 1).abs() > appo.clip_range).to(at::kFloat).mean();
  return {
      .loss = loss,
      .numbers = numbers_on_device({policy_loss, value_loss, entropy, approx_kl, cut}, error, targets.value_target)};
}

}  // namespace tandem::rl
