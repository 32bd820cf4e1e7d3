#include "tandem/rl/algo/ppo_columns.h"

#include <ATen/ATen.h>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// The first five lie in a fixed order. Those after them are told apart by their names; the others are the observation's
// leaves, in its order.
constexpr std::size_t kFixed = 5;
constexpr const char* kMask = "action_mask";

at::Tensor rows_of(const at::Tensor& tensor, std::int64_t steps) { return tensor.narrow(0, 0, steps).flatten(0, 1); }

}  // namespace

learner::Batch ppo_columns(const Fragment& fragment) {
  const std::int64_t steps = fragment.steps;
  learner::Columns columns{{"action", rows_of(fragment.action, steps)},
                           {"log_prob", rows_of(fragment.log_prob, steps)},
                           {"value", rows_of(fragment.value, steps)},
                           {"advantage", rows_of(fragment.advantage, steps)},
                           {"value_target", rows_of(fragment.value_target, steps)}};
  if (fragment.action_mask.defined()) columns.emplace_back(kMask, rows_of(fragment.action_mask, steps));
  for (const at::Tensor& leaf : fragment.observation) columns.emplace_back("observation", rows_of(leaf, steps));
  return {.columns = std::move(columns), .states = {}};
}

PpoRows ppo_rows(const learner::Columns& columns, const learner::Columns& states) {
  TANDEM_CHECK(columns.size() > kFixed, columns.size(), " columns");
  PpoRows rows{.observation = {},
               .action_mask = {},
               .action = columns[0].second,
               .log_prob = columns[1].second,
               .value = columns[2].second,
               .advantage = columns[3].second,
               .value_target = columns[4].second,
               .done = {},
               .learned = {},
               .state = states.empty() ? at::Tensor() : states.front().second};
  for (std::size_t next = kFixed; next < columns.size(); ++next) {
    const auto& [name, column] = columns[next];
    if (name == kMask) {
      rows.action_mask = column;
    } else if (name == kDoneColumn) {
      rows.done = column;
    } else if (name == kLearnedColumn) {
      rows.learned = column;
    } else {
      rows.observation.push_back(column);
    }
  }
  return rows;
}

}  // namespace tandem::rl
