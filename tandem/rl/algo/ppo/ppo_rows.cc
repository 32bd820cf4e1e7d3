#include "tandem/rl/algo/ppo/ppo_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// The first five lie in a fixed order. Those after them are told apart by their names; the others are the observation's
// leaves, in its order.
constexpr std::size_t kFixed = 5;
constexpr const char* kMask = "action_mask";

at::Tensor rows_of(const at::Tensor& tensor, std::int64_t steps) { return tensor.narrow(0, 0, steps).flatten(0, 1); }

// [S * T, ...], a sequence after the other, as [T * S, ...].
at::Tensor time_major(const at::Tensor& rows, std::int64_t sequences) {
  return rows.unflatten(0, {sequences, -1}).transpose(0, 1).flatten(0, 1);
}

// The steps of one environment, among the rows of the fragment's columns and of its states, a step or sequence after
// the other with so many rows in between.
struct Run {
  int steps = 0;
  std::int64_t first = 0, first_state = 0, stride = 1;
};

std::vector<Run> runs_of(const Fragment& fragment, const SequenceOptions& options) {
  std::vector<Run> runs;
  if (fragment.joined.empty()) {
    for (int row = 0; row < fragment.rows; ++row)
      runs.push_back({.steps = fragment.steps, .first = row, .first_state = row, .stride = fragment.rows});
    return runs;
  }
  Run next;
  for (const int steps : fragment.joined) {
    next.steps = steps;
    runs.push_back(next);
    next.first += steps;
    next.first_state += SequenceCut(steps, options).count();
  }
  return runs;
}

}  // namespace

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

// First lists which row of the fragment each row of the sequences is, then copies all columns by that list.
learner::Batch ppo_sequences(const Fragment& fragment, const SequenceOptions& options) {
  const std::vector<Run> runs = runs_of(fragment, options);
  const int window = SequenceCut(std::ranges::max(runs, {}, &Run::steps).steps, options).window();
  std::vector<std::int64_t> rows, states;  // of the fragment, by the rows of the sequences, and by sequence
  std::vector<std::uint8_t> learned;
  for (const Run& run : runs) {
    const SequenceCut cut(run.steps, options);
    for (int k = 0; k < cut.count(); ++k) {
      states.push_back(run.first_state + k * run.stride);
      for (int i = 0; i < window; ++i) {
        const int step = std::min(cut.begin(k) + i, run.steps - 1);
        rows.push_back(run.first + step * run.stride);
        learned.push_back(cut.learns(k, i) ? 1 : 0);
      }
    }
  }
  const at::Tensor order = at::tensor(rows, at::kLong);
  learner::Batch batch;
  take_columns(fragment, batch);
  batch.columns.emplace_back(kDoneColumn, fragment.made(fragment.done).flatten());
  for (auto& [name, column] : batch.columns) column = column.index_select(0, order);
  batch.columns.emplace_back(kLearnedColumn, at::tensor(learned, at::kByte));
  batch.states.emplace_back("state", fragment.state.flatten(0, 1).index_select(0, at::tensor(states, at::kLong)));
  return batch;
}

// The policy runs over all rows, a step of all sequences at a time, since states pass from step to step. Only then are
// padding and burn-in left out.
PolicyOutput forward_learned(RecurrentActorCritic& policy, PpoRows& rows, const SequenceOptions& options) {
  const std::int64_t sequences = rows.state.size(0), all = rows.log_prob.size(0), steps = all / sequences;
  SequenceInput input{.observation = {}, .state = rows.state, .start = {}};
  for (const at::Tensor& leaf : rows.observation) input.observation.push_back(time_major(leaf, sequences));
  const at::Tensor done = time_major(rows.done, sequences).view({steps, sequences});
  input.start = at::cat({at::zeros_like(done.narrow(0, 0, 1)), done.narrow(0, 0, steps - 1)});
  const PolicyOutput output = forward_in_pieces(policy, input, sequence_pieces(steps, options));

  const at::Tensor chosen = rows.learned.nonzero().squeeze(1);
  const at::Tensor in_output = chosen.remainder(steps) * sequences + chosen.div(steps, "floor");
  for (at::Tensor* column :
       {&rows.action_mask, &rows.action, &rows.log_prob, &rows.value, &rows.advantage, &rows.value_target}) {
    if (column->defined()) *column = column->index_select(0, chosen);
  }
  return map_rows(output, all, [&](const at::Tensor& tensor) { return tensor.index_select(0, in_output); });
}

}  // namespace tandem::rl
