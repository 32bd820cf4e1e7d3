#include "tandem/rl/algo/trajectory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

constexpr const char* kMask = "action_mask";

at::Tensor one_sequence(const at::Tensor& steps) { return steps.unsqueeze(0); }

}  // namespace

Trajectory::Trajectory(const Spec& spec, int steps_, int rows_, c10::Device device) : steps(steps_), rows(rows_) {
  const Fragment like(spec, steps, rows);
  const auto memory = [device](const at::Tensor& of) { return at::zeros_like(of, of.options().device(device)); };
  for (const at::Tensor& leaf : like.observation) observation.push_back(memory(leaf));
  if (like.action_mask.defined()) action_mask = memory(like.action_mask);
  action = memory(like.action);
  log_prob = memory(like.log_prob);
  reward = memory(like.reward);
  done = memory(like.done);
}

void Trajectory::copy_from(const Fragment& fragment) {
  const at::NoGradGuard no_grad;
  for (std::size_t leaf = 0; leaf < observation.size(); ++leaf) observation[leaf].copy_(fragment.observation[leaf]);
  if (action_mask.defined()) action_mask.copy_(fragment.action_mask);
  action.copy_(fragment.action);
  log_prob.copy_(fragment.log_prob);
  reward.copy_(fragment.reward);
  done.copy_(fragment.done);
}

void Trajectory::copy_from(const Trajectory& other) {
  const at::NoGradGuard no_grad;
  for (std::size_t leaf = 0; leaf < observation.size(); ++leaf) observation[leaf].copy_(other.observation[leaf]);
  if (action_mask.defined()) action_mask.copy_(other.action_mask);
  action.copy_(other.action);
  log_prob.copy_(other.log_prob);
  reward.copy_(other.reward);
  done.copy_(other.done);
}

learner::Batch Trajectory::batch() const {
  learner::Batch batch{.columns = {{"action", action.flatten(0, 1)},
                                   {"log_prob", log_prob.flatten()},
                                   {"reward", reward.flatten()},
                                   {"done", done.flatten()}},
                       .states = {}};
  if (action_mask.defined()) batch.states.emplace_back(kMask, one_sequence(action_mask));
  for (const at::Tensor& leaf : observation) batch.states.emplace_back("observation", one_sequence(leaf));
  return batch;
}

TrajectoryView trajectory_view(const learner::ShardBatch& batch) {
  TANDEM_CHECK(batch.columns.size() == 4 && !batch.states.empty(), "columns of another kind of batch");
  const at::Tensor& first = batch.states.front().second;  // [1, T + 1, N, ...]
  TANDEM_CHECK(first.size(0) == 1, first.size(0), " trajectories in one minibatch");
  TrajectoryView view{.steps = first.size(1) - 1,
                      .rows = first.size(2),
                      .observation = {},
                      .action_mask = {},
                      .action = batch.columns[0].second,
                      .log_prob = {},
                      .reward = {},
                      .done = {}};
  view.log_prob = batch.columns[1].second.view({view.steps, view.rows});
  view.reward = batch.columns[2].second.view({view.steps, view.rows});
  view.done = batch.columns[3].second.view({view.steps, view.rows});
  for (const auto& [name, state] : batch.states) {
    if (name == kMask) {
      view.action_mask = state.flatten(0, 2);
    } else {
      view.observation.push_back(state.flatten(0, 2));
    }
  }
  return view;
}

}  // namespace tandem::rl
