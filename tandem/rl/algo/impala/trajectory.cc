#include "tandem/rl/algo/impala/trajectory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

void copy_rows(const Fragment& from, Trajectory& to, int first_row) {
  const at::NoGradGuard no_grad;
  const auto copy = [&](const at::Tensor& source, const at::Tensor& target) {
    (from.rows == to.rows ? target : target.narrow(1, first_row, from.rows)).copy_(source);
  };
  for (std::size_t leaf = 0; leaf < to.observation.size(); ++leaf) copy(from.observation[leaf], to.observation[leaf]);
  if (to.action_mask.defined()) copy(from.action_mask, to.action_mask);
  copy(from.action, to.action);
  copy(from.log_prob, to.log_prob);
  copy(from.reward, to.reward);
  copy(from.done, to.done);
  if (to.state.defined()) copy(from.state, to.state);
}

at::Tensor one_sequence(const at::Tensor& steps) { return steps.unsqueeze(0); }

}  // namespace

Trajectory::Trajectory(const Spec& spec, int steps_, int rows_, std::int64_t state_size, c10::Device device)
    : steps(steps_), rows(rows_) {
  const Fragment like(spec, steps, rows, KeptStates{.sequences = 1, .size = state_size});
  const auto memory = [device](const at::Tensor& of) { return at::zeros_like(of, of.options().device(device)); };
  for (const at::Tensor& leaf : like.observation) observation.push_back(memory(leaf));
  if (like.action_mask.defined()) action_mask = memory(like.action_mask);
  action = memory(like.action);
  log_prob = memory(like.log_prob);
  reward = memory(like.reward);
  done = memory(like.done);
  if (like.state.defined()) state = memory(like.state);
  batch_.columns = {{"action", action.flatten(0, 1)},
                    {"log_prob", log_prob.flatten()},
                    {"reward", reward.flatten()},
                    {"done", done.flatten()}};
  for (const at::Tensor& leaf : observation) batch_.states.emplace_back("observation", one_sequence(leaf));
  if (action_mask.defined()) batch_.states.emplace_back(kMaskColumn, one_sequence(action_mask));
  if (state.defined()) batch_.states.emplace_back(kStateColumn, state);
}

void Trajectory::copy_from(std::span<const Fragment> parts) {
  int row = 0;
  for (const Fragment& part : parts) {
    TANDEM_CHECK(row + part.rows <= rows, "more than the ", rows, " environments of the trajectory");
    copy_rows(part, *this, row);
    row += part.rows;
  }
  TANDEM_CHECK(row == rows, row, " environments for a trajectory of ", rows);
}

TrajectoryView trajectory_view(const learner::Columns& columns, const learner::Columns& states) {
  TrajectoryView view;
  take_view(columns, states, view);
  return view;
}

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
