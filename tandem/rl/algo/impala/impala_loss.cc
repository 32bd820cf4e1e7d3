#include "tandem/rl/algo/impala/impala_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tandem/model/distribution/distribution.h"
#include "tandem/rl/algo/entropy.h"
#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/algo/impala/vtrace.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {
namespace {

// The policy's output for all T + 1 steps. A policy that remembers runs through each environment's sequence, in pieces
// that gradients flow back through, and starts anew where an episode ended.
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

// Rows that only bootstrap have a value and no distribution.
struct TrajectoryOutput {
  std::unique_ptr<model::Distribution> distribution;  // of T * N rows
  at::Tensor log_prob;                                // [T, N], of the actions taken; of decisions [C]
  at::Tensor value;                                   // [T + 1, N]; of decisions [C + B]
};

// One forward pass over all rows, the bootstrapping ones included, whose value() has gradients that losses must not
// use.
TrajectoryOutput output_of(ActorCritic& policy, const TrajectoryView& seen, const ImpalaOptions& options) {
  const std::int64_t count = seen.count(), all = count + seen.beyond;
  const PolicyOutput output = forward(policy, seen, options);
  const auto first_rows = [count](const at::Tensor& tensor) { return tensor.narrow(0, 0, count); };
  const at::Tensor mask = seen.action_mask.defined() ? first_rows(seen.action_mask) : at::Tensor();
  TrajectoryOutput result{.distribution = policy.distribution(map_rows(output, all, first_rows), mask),
                          .log_prob = {},
                          .value = output.value.view(seen.shape_of_values())};
  result.log_prob = result.distribution->log_prob(seen.action).view(seen.log_prob.sizes());
  return result;
}

}  // namespace

learner::ShardLoss impala_loss(ActorCritic& policy, const std::optional<AppoTarget>& appo,
                               const learner::ShardBatch& batch, const ImpalaOptions& options, ImpalaNumbers& numbers) {
  const learner::DeviceLoss made = impala_loss_on_device(policy, appo, batch, options);
  const std::int64_t rows = learner::rows_of(batch.columns);
  const at::Tensor here = made.numbers.to(at::kCPU, at::kDouble);  // waits for the device
  numbers = numbers_of(rows, {here.const_data_ptr<double>(), static_cast<std::size_t>(here.numel())});
  return {.loss = made.loss, .weight = static_cast<double>(rows), .outputs = {}};
}

// The names follow the header: now is pi, before is pi_T, seen has mu. V-trace's targets and advantages are constants:
// vtrace() computes without gradients, from detached values. Explained variance is left as two variances, since a
// division would have to look at a number on the host.
learner::DeviceLoss impala_loss_on_device(ActorCritic& policy, const std::optional<AppoTarget>& appo,
                                          const learner::ShardBatch& batch, const ImpalaOptions& options) {
  TrajectoryView seen;
  take_view(batch.columns, batch.states, seen);
  const TrajectoryOutput now = output_of(policy, seen, options);
  TrajectoryOutput before;
  if (appo) {
    const at::NoGradGuard no_grad;
    before = output_of(appo->network, seen, options);
  }
  const at::Tensor from_acting = ((appo ? before.log_prob : now.log_prob) - seen.log_prob).detach();
  const VtraceTargets targets =
      vtrace({.log_ratio = from_acting,
              .reward = seen.reward,
              .discount = options.gamma * (1 - seen.done.to(seen.reward.scalar_type())),
              .value = now.value.detach(),
              .next = seen.next},
             {.rho_clip = options.rho_clip, .c_clip = options.c_clip, .policy_rho_clip = options.rho_clip});
  at::Tensor policy_loss, ratio;
  if (appo) {
    const double clip = appo->options.clip_range;
    ratio = (-from_acting).exp().clamp_max(kMostCorrection) * (now.log_prob - seen.log_prob).exp();
    const at::Tensor near = ratio.clamp(1 - clip, 1 + clip);
    policy_loss = -at::min(ratio * targets.advantage, near * targets.advantage).mean();
  } else {
    policy_loss = -(targets.advantage * now.log_prob).mean();
  }
  const at::Tensor error = targets.value_target - now.value.narrow(0, 0, seen.steps);
  const at::Tensor value_loss = error.square().mean();
  const at::Tensor entropy = entropy_of(*now.distribution).mean();
  at::Tensor loss = policy_loss + options.value_coef * value_loss - options.entropy_coef * entropy;
  if (appo && appo->options.kl_coef > 0)
    loss = loss + appo->options.kl_coef * before.distribution->kl(*now.distribution).mean();

  const at::NoGradGuard no_grad;
  const at::Tensor log_ratio = appo ? now.log_prob - before.log_prob : from_acting;
  const at::Tensor change = log_ratio.exp();
  const at::Tensor approx_kl = (change - 1 - log_ratio).mean();
  const at::Tensor cut = appo ? (ratio - 1).abs() > appo->options.clip_range : change > options.rho_clip;
  return {.loss = loss,
          .numbers = at::stack({policy_loss, value_loss, entropy, approx_kl, cut.to(at::kFloat).mean(),
                                error.var(/*unbiased=*/false), targets.value_target.var(/*unbiased=*/false)})};
}

ImpalaNumbers numbers_of(std::int64_t rows, std::span<const double> numbers) {
  ImpalaNumbers all;
  all.rows = rows;
  for (std::size_t i = 0; i < kLosses.size(); ++i) all.*kLosses[i].second = numbers[i];
  const double of_errors = numbers[5], of_targets = numbers[6];
  all.explained_variance = of_targets > 0 ? 1 - of_errors / of_targets : std::numeric_limits<double>::quiet_NaN();
  return all;
}

}  // namespace tandem::rl
