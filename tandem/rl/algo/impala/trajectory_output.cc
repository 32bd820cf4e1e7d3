#include "tandem/rl/algo/impala/trajectory_output.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

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

}  // namespace

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

at::Tensor numbers_on_device(std::vector<at::Tensor> means, const at::Tensor& error, const at::Tensor& value_target) {
  means.push_back(error.var(/*unbiased=*/false));
  means.push_back(value_target.var(/*unbiased=*/false));
  return at::stack(means);
}

ImpalaNumbers numbers_of(std::int64_t rows, std::span<const double> numbers) {
  const double of_targets = numbers[6];
  return {
      .rows = rows,
      .policy_loss = numbers[0],
      .value_loss = numbers[1],
      .entropy = numbers[2],
      .approx_kl = numbers[3],
      .cut = numbers[4],
      .explained_variance = of_targets > 0 ? 1 - numbers[5] / of_targets : std::numeric_limits<double>::quiet_NaN()};
}

// The copy to the host is where the caller waits for the device.
learner::ShardLoss read_numbers(const learner::DeviceLoss& made, std::int64_t rows, ImpalaNumbers& numbers) {
  const at::Tensor here = made.numbers.to(at::kCPU, at::kDouble);
  numbers = numbers_of(rows, {here.const_data_ptr<double>(), static_cast<std::size_t>(here.numel())});
  return {.loss = made.loss, .weight = static_cast<double>(rows), .outputs = {}};
}

}  // namespace tandem::rl
