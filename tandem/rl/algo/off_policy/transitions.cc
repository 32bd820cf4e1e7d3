#include "tandem/rl/algo/off_policy/transitions.h"

#include <ATen/ATen.h>

#include <string>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

constexpr const char* kNext = "next_observation";
constexpr const char* kActionMask = "action_mask";
constexpr const char* kNextMask = "next_action_mask";
constexpr const char* kNoise = "noise";
// action, reward, discount and weight, which come first.
constexpr std::size_t kFirstColumns = 4;

}  // namespace

TransitionRows make_transitions(const Spec& spec, std::int64_t rows, int noises) {
  TransitionRows made;
  for (const Leaf& leaf : as_policies_see(spec).observation) {
    const auto options = at::TensorOptions(scalar_type(leaf.type));
    made.observation.push_back(at::zeros(with_rows({rows}, leaf), options));
    made.next_observation.push_back(at::zeros(with_rows({rows}, leaf), options));
  }
  const std::int64_t size = action_elements(spec.action);
  const bool is_box = std::holds_alternative<Box>(spec.action);
  const bool is_choice = std::holds_alternative<Discrete>(spec.action);
  made.action = is_choice ? at::zeros({rows}, at::kLong) : at::zeros({rows, size}, is_box ? at::kFloat : at::kLong);
  for (at::Tensor* each : {&made.reward, &made.discount, &made.weight}) *each = at::zeros({rows}, at::kFloat);
  if (spec.has_action_mask) {
    for (at::Tensor* mask : {&made.action_mask, &made.next_action_mask})
      *mask = at::zeros({rows, mask_elements(spec.action)}, at::kByte);
  }
  for (int i = 0; i < noises; ++i) made.noise.push_back(at::zeros({rows, size}, at::kFloat));
  return made;
}

// Observations come last, since there may be any number of leaves.
void take_columns(const TransitionRows& rows, learner::Batch& batch) {
  batch = {};
  learner::Columns& columns = batch.columns;
  columns = {{"action", rows.action}, {"reward", rows.reward}, {"discount", rows.discount}, {"weight", rows.weight}};
  if (rows.action_mask.defined()) columns.emplace_back(kActionMask, rows.action_mask);
  if (rows.next_action_mask.defined()) columns.emplace_back(kNextMask, rows.next_action_mask);
  for (const at::Tensor& noise : rows.noise) columns.emplace_back(kNoise, noise);
  for (const at::Tensor& leaf : rows.observation) columns.emplace_back("observation", leaf);
  for (const at::Tensor& leaf : rows.next_observation) columns.emplace_back(kNext, leaf);
}

// The tensors of the columns, found by their places and names; nothing is copied.
TransitionRows transitions_of(const learner::Columns& columns) {
  TANDEM_CHECK(columns.size() > kFirstColumns, columns.size(), " columns");
  TransitionRows rows;
  rows.action = columns[0].second;
  rows.reward = columns[1].second;
  rows.discount = columns[2].second;
  rows.weight = columns[3].second;
  for (std::size_t next = kFirstColumns; next < columns.size(); ++next) {
    const auto& [name, column] = columns[next];
    if (name == kActionMask) {
      rows.action_mask = column;
    } else if (name == kNextMask) {
      rows.next_action_mask = column;
    } else if (name == kNoise) {
      rows.noise.push_back(column);
    } else if (name == kNext) {
      rows.next_observation.push_back(column);
    } else {
      rows.observation.push_back(column);
    }
  }
  return rows;
}

}  // namespace tandem::rl
