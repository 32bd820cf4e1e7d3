#include "tandem/rl/algo/ppo/ppo_columns.h"

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
  learner::Batch batch;
  take_columns(fragment, batch);
  return batch;
}

void take_columns(const Fragment& fragment, learner::Batch& batch) {
  const bool has_mask = fragment.action_mask.defined();
  batch.columns.resize(kFixed + (has_mask ? 1 : 0) + fragment.observation.size());
  batch.states.clear();
  std::size_t next = 0;
  const auto put = [&](const char* name, const at::Tensor& of) {
    batch.columns[next].first = name;
    batch.columns[next++].second = rows_of(of, fragment.steps);
  };
  put("action", fragment.action);
  put("log_prob", fragment.log_prob);
  put("value", fragment.value);
  put("advantage", fragment.advantage);
  put("value_target", fragment.value_target);
  if (has_mask) put(kMask, fragment.action_mask);
  for (const at::Tensor& leaf : fragment.observation) put("observation", leaf);
}

PpoRows ppo_rows(const learner::Columns& columns, const learner::Columns& states) {
  PpoRows rows;
  take_rows(columns, states, rows);
  return rows;
}

// Tensors that this batch does not have are reset: `rows` may come from a batch that had them.
void take_rows(const learner::Columns& columns, const learner::Columns& states, PpoRows& rows) {
  TANDEM_CHECK(columns.size() > kFixed, columns.size(), " columns");
  rows.observation.clear();
  for (at::Tensor* other : {&rows.action_mask, &rows.done, &rows.learned}) other->reset();
  rows.action = columns[0].second;
  rows.log_prob = columns[1].second;
  rows.value = columns[2].second;
  rows.advantage = columns[3].second;
  rows.value_target = columns[4].second;
  rows.state = states.empty() ? at::Tensor() : states.front().second;
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
}

}  // namespace tandem::rl
