#include "tandem/rl/algo/impala/trajectory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string_view>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// Calls visit(name, tensor) for what has a row for each step, in the order of a batch's columns.
template <typename Visit>
void visit_columns(const Fragment& fragment, Visit visit) {
  visit("action", fragment.action);
  visit("log_prob", fragment.log_prob);
  visit("reward", fragment.reward);
  visit("done", fragment.done);
}

// Calls visit(name, tensor) for everything else that a batch has, in the order of its states.
template <typename Visit>
void visit_states(const Fragment& fragment, Visit visit) {
  for (const at::Tensor& leaf : fragment.observation) visit("observation", leaf);
  if (fragment.action_mask.defined()) visit(kMaskColumn, fragment.action_mask);
  if (fragment.state.defined()) visit(kStateColumn, fragment.state);
}

// Memory for `parts` tensors side by side, in their second dimension.
at::Tensor memory_for(const at::Tensor& like, int parts, c10::Device device) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[1] *= parts;
  return at::zeros(sizes, like.options().device(device));
}

// The tensor's rows; fragments of decisions have one column.
at::Tensor rows_of(const at::Tensor& tensor) { return tensor.select(1, 0); }

// Copies the first rows, and makes them the batch's.
void copy_rows(const at::Tensor& from, std::int64_t rows, const at::Tensor& memory, at::Tensor& view) {
  view = memory.narrow(0, 0, rows);
  view.copy_(from.narrow(0, 0, rows));
}

}  // namespace

// Rows of the columns are flattened to [T * N, ...]; states keep their dimensions behind a first one of one sequence.
Trajectory::Trajectory(const Fragment& like, int parts, c10::Device device) {
  visit_columns(like, [&](std::string_view name, const at::Tensor& tensor) {
    columns_.emplace_back(name, memory_for(tensor, parts, device));
    batch_.columns.emplace_back(name, columns_.back().second.flatten(0, 1));
  });
  visit_states(like, [&](std::string_view name, const at::Tensor& tensor) {
    const at::Tensor& memory = states_.emplace_back(name, memory_for(tensor, parts, device)).second;
    batch_.states.emplace_back(name, name == kStateColumn ? memory : memory.unsqueeze(0));  // one sequence
  });
}

// Memory is made for as many decisions as the fragment can have; views end at those that there are.
Trajectory::Trajectory(const DecisionFragment& like, c10::Device device) {
  const auto add_to = [device](learner::Columns& columns) {
    return [device, &columns](std::string_view name, const at::Tensor& tensor) {
      columns.emplace_back(name, rows_of(memory_for(tensor, 1, device)));
    };
  };
  visit_columns(like.decisions, add_to(columns_));
  columns_.emplace_back(kNextColumn,
                        at::zeros({std::ssize(like.next)}, at::TensorOptions().dtype(at::kLong).device(device)));
  visit_states(like.decisions, add_to(states_));
  batch_ = {.columns = columns_, .states = states_};
}

// The tensors of a fragment come in the order in which the constructor made the memory. A single part fills it whole.
void Trajectory::copy_from(std::span<const Fragment> parts) {
  const at::NoGradGuard no_grad;
  const std::int64_t rows = columns_.front().second.size(1);
  std::int64_t row = 0;
  for (const Fragment& part : parts) {
    TANDEM_CHECK(row + part.rows <= rows, "more than the ", rows, " environments of the trajectory");
    const auto copy_to = [row, rows, count = part.rows](const learner::Columns& memory) {
      return [row, rows, count, to = memory.begin()](std::string_view /*name*/, const at::Tensor& from) mutable {
        const at::Tensor& all = (to++)->second;
        (count == rows ? all : all.narrow(1, row, count)).copy_(from);
      };
    };
    visit_columns(part, copy_to(columns_));
    visit_states(part, copy_to(states_));
    row += part.rows;
  }
  TANDEM_CHECK(row == rows, row, " environments for a trajectory of ", rows);
}

// Only the rows that the fragment has are copied, and the batch's views end there. Rows beyond the decisions are states
// alone: the learner evaluates them, and does not learn from them.
void Trajectory::copy_from(const DecisionFragment& fragment) {
  const at::NoGradGuard no_grad;
  decisions_ = fragment.decisions.steps;
  TANDEM_CHECK(decisions_ <= columns_.back().second.size(0), decisions_, " decisions for memory of ",
               columns_.back().second.size(0));
  std::size_t column = 0, state = 0;
  const auto copy_column = [&](const at::Tensor& from) {
    copy_rows(from, decisions_, columns_[column].second, batch_.columns[column].second);
    ++column;
  };
  visit_columns(fragment.decisions,
                [&](std::string_view /*name*/, const at::Tensor& from) { copy_column(rows_of(from)); });
  copy_column(at::from_blob(const_cast<std::int64_t*>(fragment.next.data()), {std::ssize(fragment.next)}, at::kLong));
  visit_states(fragment.decisions, [&](std::string_view /*name*/, const at::Tensor& from) {
    at::Tensor& view = batch_.states[state].second;
    copy_rows(rows_of(from), decisions_ + fragment.beyond, states_[state++].second, view);
    view = view.unsqueeze(0);  // one sequence
  });
}

// The batch's columns and states are told apart by their order and names; see Trajectory's constructors.
void take_view(const learner::Columns& columns, const learner::Columns& states, TrajectoryView& view) {
  const bool of_decisions = columns.size() == 5 && columns[4].first == kNextColumn;
  TANDEM_CHECK((columns.size() == 4 || of_decisions) && !states.empty(), "columns of another kind of batch");
  const at::Tensor& first = states.front().second;  // [1, T + 1, N, ...]; of decisions: [1, C + B, ...]
  TANDEM_CHECK(first.size(0) == 1, first.size(0), " trajectories in one minibatch");
  view.steps = of_decisions ? columns[0].second.size(0) : first.size(1) - 1;
  view.rows = of_decisions ? 1 : first.size(2);
  view.beyond = of_decisions ? first.size(1) - view.steps : view.rows;
  view.observation.clear();
  view.action_mask.reset();
  view.next.reset();
  view.state.reset();
  view.action = columns[0].second;
  const auto by_step = [&](const at::Tensor& column) {
    return of_decisions ? column : column.view({view.steps, view.rows});
  };
  view.log_prob = by_step(columns[1].second);
  view.reward = by_step(columns[2].second);
  view.done = by_step(columns[3].second);
  if (of_decisions) view.next = columns[4].second;
  for (const auto& [name, state] : states) {
    const at::Tensor all_rows = name == kStateColumn || of_decisions ? state.squeeze(0) : state.flatten(0, 2);
    if (name == kMaskColumn) {
      view.action_mask = all_rows;
    } else if (name == kStateColumn) {
      view.state = all_rows;
    } else {
      view.observation.push_back(all_rows);
    }
  }
}

std::vector<std::int64_t> TrajectoryView::shape_of_values() const {
  if (next.defined()) return {steps + beyond};
  return {steps + 1, rows};
}

}  // namespace tandem::rl
