#include "tandem/rl/algo/trajectory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

constexpr const char *kMaskColumn = "action_mask", *kStateColumn = "state";

// From a Fragment or a Trajectory; of its environments those from first_row on.
template <typename Steps>
void copy_steps(const Steps& from, int first_row, Trajectory& to) {
  const at::NoGradGuard no_grad;
  const auto rows = [&](const at::Tensor& all) {
    return all.size(1) == to.rows ? all : all.narrow(1, first_row, to.rows);
  };
  for (std::size_t leaf = 0; leaf < to.observation.size(); ++leaf)
    to.observation[leaf].copy_(rows(from.observation[leaf]));
  if (to.action_mask.defined()) to.action_mask.copy_(rows(from.action_mask));
  to.action.copy_(rows(from.action));
  to.log_prob.copy_(rows(from.log_prob));
  to.reward.copy_(rows(from.reward));
  to.done.copy_(rows(from.done));
  if (to.state.defined()) to.state.copy_(rows(from.state));
}

at::Tensor one_sequence(const at::Tensor& steps) { return steps.unsqueeze(0); }

}  // namespace

Trajectory::Trajectory(const Spec& spec, int steps_, int rows_, std::int64_t state_size, c10::Device device)
    : steps(steps_), rows(rows_), moments(spec, {}) {
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

void Trajectory::copy_from(const Fragment& fragment) { copy_steps(fragment, 0, *this); }

void Trajectory::copy_from(const Trajectory& other, int first_row) { copy_steps(other, first_row, *this); }

TrajectoryView trajectory_view(const learner::Columns& columns, const learner::Columns& states) {
  TrajectoryView view;
  take_view(columns, states, view);
  return view;
}

void take_view(const learner::Columns& columns, const learner::Columns& states, TrajectoryView& view) {
  TANDEM_CHECK(columns.size() == 4 && !states.empty(), "columns of another kind of batch");
  const at::Tensor& first = states.front().second;  // [1, T + 1, N, ...]
  TANDEM_CHECK(first.size(0) == 1, first.size(0), " trajectories in one minibatch");
  view.steps = first.size(1) - 1;
  view.rows = first.size(2);
  view.observation.clear();
  view.action_mask.reset();
  view.state.reset();
  view.action = columns[0].second;
  view.log_prob = columns[1].second.view({view.steps, view.rows});
  view.reward = columns[2].second.view({view.steps, view.rows});
  view.done = columns[3].second.view({view.steps, view.rows});
  for (const auto& [name, state] : states) {
    if (name == kMaskColumn) {
      view.action_mask = state.flatten(0, 2);
    } else if (name == kStateColumn) {
      view.state = state.squeeze(0);
    } else {
      view.observation.push_back(state.flatten(0, 2));
    }
  }
}

}  // namespace tandem::rl
