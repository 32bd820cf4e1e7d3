#include "tandem/rl/rollout/fragment.h"

#include <ATen/ATen.h>

namespace tandem::rl {
namespace {

at::ScalarType dtype_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return at::kFloat;
    case ElementType::kUInt8:
      return at::kByte;
    case ElementType::kInt64:
      return at::kLong;
  }
  return at::kFloat;
}

}  // namespace

// Sizes follow from the spec: per leaf its shape, one action column per choice or component, and none for a single
// choice.
Fragment::Fragment(const Spec& spec, int steps_, int rows_, const KeptStates& states) : steps(steps_), rows(rows_) {
  for (const Leaf& leaf : spec.observation) {
    std::vector<std::int64_t> shape{steps + 1, rows};
    shape.insert(shape.end(), leaf.shape.begin(), leaf.shape.end());
    observation.push_back(at::zeros(shape, dtype_of(leaf.type)));
  }
  // Masks begin with everything allowed: a row of zeros would be no distribution.
  if (spec.has_action_mask) action_mask = at::ones({steps + 1, rows, mask_elements(spec.action)}, at::kByte);
  const std::int64_t elements = action_elements(spec.action);
  const bool box = std::holds_alternative<Box>(spec.action);
  const bool one_choice = std::holds_alternative<Discrete>(spec.action);
  std::vector<std::int64_t> action_shape{steps, rows};
  if (!one_choice) action_shape.push_back(elements);
  action = at::zeros(action_shape, box ? at::kFloat : at::kLong);
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

}  // namespace tandem::rl
