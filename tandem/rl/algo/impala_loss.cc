#include "tandem/rl/algo/impala_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tandem/model/shard_random.h"
#include "tandem/rl/algo/trajectory.h"
#include "tandem/rl/algo/vtrace.h"
#include "tandem/rl/policy/output_rows.h"
#include "tandem/rl/policy/recurrent.h"

namespace tandem::rl {
namespace {

// Of all T + 1 steps.
PolicyOutput forward(ActorCritic& policy, const TrajectoryView& seen, const ImpalaOptions& options) {
  if (!options.sequence_length) return policy.forward(seen.observation);
  std::vector<std::int64_t> lengths;
  for (std::int64_t begin = 0; begin <= seen.steps; begin += lengths.back())
    lengths.push_back(std::min<std::int64_t>(*options.sequence_length, seen.steps + 1 - begin));
  return forward_in_pieces(dynamic_cast<RecurrentActorCritic&>(policy),
                           {.observation = seen.observation,
                            .state = seen.state,
                            .start = at::cat({at::zeros({1, seen.rows}, seen.done.options()), seen.done})},
                           lengths);
}

at::Tensor entropy_of(const model::Distribution& distribution) {
  return distribution.has_entropy() ? distribution.entropy()
                                    : distribution.entropy_estimate(model::current_generator());
}

// In the order of ImpalaNumbers, and the two variances for the last.
ImpalaNumbers numbers_of(const std::vector<at::Tensor>& of) {
  const at::Tensor numbers = at::stack(of).to(at::kCPU, at::kDouble);
  const double* number = numbers.const_data_ptr<double>();
  const double of_targets = number[6];
  return {.policy_loss = number[0],
          .value_loss = number[1],
          .entropy = number[2],
          .approx_kl = number[3],
          .cut = number[4],
          .explained_variance = of_targets > 0 ? 1 - number[5] / of_targets : std::numeric_limits<double>::quiet_NaN()};
}

}  // namespace

learner::ShardLoss impala_loss(ActorCritic& policy, const learner::ShardBatch& batch, const ImpalaOptions& options,
                               ImpalaNumbers& numbers) {
  const TrajectoryView seen = trajectory_view(batch);
  const std::int64_t count = seen.steps * seen.rows, all = count + seen.rows;
  const PolicyOutput output = forward(policy, seen, options);
  const at::Tensor mask = seen.action_mask.defined() ? seen.action_mask.narrow(0, 0, count) : at::Tensor();
  const std::unique_ptr<model::Distribution> distribution = policy.distribution(
      map_rows(output, all, [&](const at::Tensor& tensor) { return tensor.narrow(0, 0, count); }), mask);
  const at::Tensor log_prob = distribution->log_prob(seen.action).view({seen.steps, seen.rows});
  const at::Tensor log_ratio = (log_prob - seen.log_prob).detach();
  const at::Tensor value = output.value.view({seen.steps + 1, seen.rows});
  const VtraceTargets targets =
      vtrace({.log_ratio = log_ratio,
              .reward = seen.reward,
              .discount = options.gamma * (1 - seen.done.to(seen.reward.scalar_type())),
              .value = value.detach()},
             {.rho_clip = options.rho_clip, .c_clip = options.c_clip, .policy_rho_clip = options.rho_clip});
  const at::Tensor error = targets.value_target - value.narrow(0, 0, seen.steps);
  const at::Tensor policy_loss = -(targets.advantage * log_prob).mean();
  const at::Tensor value_loss = error.square().mean();
  const at::Tensor entropy = entropy_of(*distribution).mean();
  const at::Tensor loss = policy_loss + options.value_coef * value_loss - options.entropy_coef * entropy;

  const at::NoGradGuard no_grad;
  const at::Tensor ratio = log_ratio.exp();
  numbers = numbers_of({policy_loss, value_loss, entropy, (ratio - 1 - log_ratio).mean(),
                        (ratio > options.rho_clip).to(at::kFloat).mean(), error.var(/*unbiased=*/false),
                        targets.value_target.var(/*unbiased=*/false)});
  return {.loss = loss, .weight = static_cast<double>(count), .outputs = {}};
}

}  // namespace tandem::rl
