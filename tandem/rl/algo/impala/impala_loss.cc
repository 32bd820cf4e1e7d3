#include "tandem/rl/algo/impala/impala_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/rl/algo/entropy.h"
#include "tandem/rl/algo/impala/trajectory_output.h"
#include "tandem/rl/algo/impala/vtrace.h"

namespace tandem::rl {

learner::ShardLoss impala_loss(ActorCritic& policy, const learner::ShardBatch& batch, const ImpalaOptions& options,
                               ImpalaNumbers& numbers) {
  return read_numbers(impala_loss_on_device(policy, batch, options), learner::rows_of(batch.columns), numbers);
}

// V-trace's targets and advantages are constants: vtrace() computes without gradients, from detached values.
learner::DeviceLoss impala_loss_on_device(ActorCritic& policy, const learner::ShardBatch& batch,
                                          const ImpalaOptions& options) {
  const TrajectoryView seen = trajectory_view(batch.columns, batch.states);
  const TrajectoryOutput now = output_of(policy, seen, options);
  const at::Tensor log_ratio = (now.log_prob - seen.log_prob).detach();
  const VtraceTargets targets =
      vtrace({.log_ratio = log_ratio,
              .reward = seen.reward,
              .discount = options.gamma * (1 - seen.done.to(seen.reward.scalar_type())),
              .value = now.value.detach(),
              .next = seen.next},
             {.rho_clip = options.rho_clip, .c_clip = options.c_clip, .policy_rho_clip = options.rho_clip});
  const at::Tensor error = targets.value_target - now.value.narrow(0, 0, seen.steps);
  const at::Tensor policy_loss = -(targets.advantage * now.log_prob).mean();
  const at::Tensor value_loss = error.square().mean();
  const at::Tensor entropy = entropy_of(*now.distribution).mean();
  const at::Tensor loss = policy_loss + options.value_coef * value_loss - options.entropy_coef * entropy;

  const at::NoGradGuard no_grad;
  const at::Tensor ratio = log_ratio.exp();
  const at::Tensor approx_kl = (ratio - 1 - log_ratio).mean();
  const at::Tensor cut = (ratio > options.rho_clip).to(at::kFloat).mean();
  return {
      .loss = loss,
      .numbers = numbers_on_device({policy_loss, value_loss, entropy, approx_kl, cut}, error, targets.value_target)};
}

}  // namespace tandem::rl
