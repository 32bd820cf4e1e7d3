#include "tandem/rl/algo/ppo_columns.h"

#include <ATen/ATen.h>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// Columns lie in a fixed order: five of one number or action a row, the mask where there is one, then the observation's
// leaves.
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

PpoRows ppo_rows(const learner::ShardBatch& batch) {
  const learner::Columns& columns = batch.columns;
  TANDEM_CHECK(columns.size() > kFixed, columns.size(), " columns");
  PpoRows rows{.observation = {},
               .action_mask = {},
               .action = columns[0].second,
               .log_prob = columns[1].second,
               .value = columns[2].second,
               .advantage = columns[3].second,
               .value_target = columns[4].second};
  std::size_t next = kFixed;
  if (columns[next].first == kMask) rows.action_mask = columns[next++].second;
  for (; next < columns.size(); ++next) rows.observation.push_back(columns[next].second);
  return rows;
}

}  // namespace tandem::rl
