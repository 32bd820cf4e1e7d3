#include "tandem/rl/algo/impala_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "tandem/model/shard_random.h"
#include "tandem/rl/algo/trajectory.h"
#include "tandem/rl/algo/vtrace.h"

namespace tandem::rl {
namespace {

// What belongs to the first `count` of `all` rows; parameters that all rows share stay as they are.
PolicyOutput first_rows(const PolicyOutput& output, std::int64_t count, std::int64_t all) {
  PolicyOutput first{.action_parameters = {}, .value = output.value.narrow(0, 0, count)};
  const bool shares_last = output.action_parameters.size() > 1;  // log_std [size] or [B, size]
  for (std::size_t i = 0; i < output.action_parameters.size(); ++i) {
    const at::Tensor& parameter = output.action_parameters[i];
    const bool shared =
        shares_last && i + 1 == output.action_parameters.size() && (parameter.dim() < 2 || parameter.size(0) != all);
    first.action_parameters.push_back(shared ? parameter : parameter.narrow(0, 0, count));
  }
  return first;
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
  const PolicyOutput output = policy.forward(seen.observation);
  const at::Tensor mask = seen.action_mask.defined() ? seen.action_mask.narrow(0, 0, count) : at::Tensor();
  const std::unique_ptr<model::Distribution> distribution = policy.distribution(first_rows(output, count, all), mask);
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
