#include "tandem/rl/rollout/fragment.h"

#include <ATen/ATen.h>

#include "tandem/concurrency/trace.h"

namespace tandem::rl {

// Sizes follow from the spec: per leaf its shape, one action column per choice or component, and none for a single
// choice.
Fragment::Fragment(const Spec& spec, int steps_, int rows_, const KeptStates& states) : steps(steps_), rows(rows_) {
  for (const Leaf& leaf : as_policies_see(spec).observation)
    observation.push_back(at::zeros(with_rows({steps + 1, rows}, leaf), scalar_type(leaf.type)));
  // Masks begin with everything allowed: a row of zeros would be no distribution.
  if (spec.has_action_mask) action_mask = at::ones({steps + 1, rows, mask_elements(spec.action)}, at::kByte);
  std::vector<std::int64_t> action_shape{steps, rows};
  if (!std::holds_alternative<Discrete>(spec.action)) action_shape.push_back(action_elements(spec.action));
  action = at::zeros(action_shape, std::holds_alternative<Box>(spec.action) ? at::kFloat : at::kLong);
  log_prob = at::zeros({steps, rows});
  value = at::zeros({steps + 1, rows});
  reward = at::zeros({steps, rows});
  done = at::zeros({steps, rows}, at::kByte);
  if (states.size > 0) state = at::zeros({states.sequences, rows, states.size});
  advantage = at::zeros({steps, rows});
  value_target = at::zeros({steps, rows});
  for (int t = 0; t <= steps; ++t) {
    std::vector<at::Tensor>& leaves = at_.emplace_back();
    for (const at::Tensor& leaf : observation) leaves.push_back(leaf[t]);
  }
}

// Works in place on the first `steps` steps, in float32.
void compute_gae(Fragment& fragment, double gamma, double lambda) {
  const Span span("gae");
  const auto discount = static_cast<float>(gamma), decay = static_cast<float>(gamma * lambda);
  const int rows = fragment.rows;
  // Time runs backwards in the outer loop, so that the inner one goes over neighbouring memory.
  for (int t = fragment.steps - 1; t >= 0; --t) {
    const std::ptrdiff_t at = std::ptrdiff_t{t} * rows;
    const float* value = fragment.value.const_data_ptr<float>() + at;
    const float* reward = fragment.reward.const_data_ptr<float>() + at;
    const std::uint8_t* done = fragment.done.const_data_ptr<std::uint8_t>() + at;
    float* advantage = fragment.advantage.data_ptr<float>() + at;
    float* target = fragment.value_target.data_ptr<float>() + at;
    const bool is_last = t + 1 == fragment.steps;
    for (int i = 0; i < rows; ++i) {
      const float goes_on = done[i] != 0 ? 0.0F : 1.0F;
      const float delta = reward[i] + discount * goes_on * value[i + rows] - value[i];
      advantage[i] = delta + decay * goes_on * (is_last ? 0.0F : advantage[i + rows]);
      target[i] = advantage[i] + value[i];
    }
  }
}

}  // namespace tandem::rl
