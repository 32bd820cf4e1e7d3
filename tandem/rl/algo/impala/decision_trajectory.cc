#include "tandem/rl/algo/impala/decision_trajectory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/check.h"
#include "tandem/rl/algo/impala/trajectory.h"

namespace tandem::rl {
namespace {

// The tensor's rows; fragments of decisions have one column.
at::Tensor rows_of(const at::Tensor& tensor) { return tensor.select(1, 0); }

// Copies the first rows, and names them in the batch.
void copy_rows(const at::Tensor& from, std::int64_t rows, const at::Tensor& memory, at::Tensor& view) {
  view = memory.narrow(0, 0, rows);
  view.copy_(from.narrow(0, 0, rows));
}

}  // namespace

DecisionTrajectory::DecisionTrajectory(const DecisionFragment& like, c10::Device device) {
  const auto memory = [device](const at::Tensor& of) { return at::zeros_like(of, of.options().device(device)); };
  const Fragment& decisions = like.decisions;
  columns_ = {{"action", memory(rows_of(decisions.action))},
              {"log_prob", memory(rows_of(decisions.log_prob))},
              {"reward", memory(rows_of(decisions.reward))},
              {"done", memory(rows_of(decisions.done))},
              {kNextColumn, at::zeros({std::ssize(like.next)}, at::TensorOptions().dtype(at::kLong).device(device))}};
  for (const at::Tensor& leaf : decisions.observation) states_.emplace_back("observation", memory(rows_of(leaf)));
  if (decisions.action_mask.defined()) states_.emplace_back(kMaskColumn, memory(rows_of(decisions.action_mask)));
  batch_ = {.columns = columns_, .states = states_};
}

void DecisionTrajectory::copy_from(const DecisionFragment& fragment) {
  const at::NoGradGuard no_grad;
  const Fragment& from = fragment.decisions;
  decisions_ = from.steps;
  TANDEM_CHECK(decisions_ <= columns_.back().second.size(0), decisions_, " decisions for memory of ",
               columns_.back().second.size(0));
  const at::Tensor next =
      at::from_blob(const_cast<std::int64_t*>(fragment.next.data()), {std::ssize(fragment.next)}, at::kLong);
  std::size_t column = 0;
  for (const at::Tensor& of :
       {rows_of(from.action), rows_of(from.log_prob), rows_of(from.reward), rows_of(from.done), next}) {
    copy_rows(of, decisions_, columns_[column].second, batch_.columns[column].second);
    ++column;
  }
  const auto copy_state = [&](std::size_t state, const at::Tensor& of) {
    at::Tensor& view = batch_.states[state].second;
    copy_rows(rows_of(of), decisions_ + fragment.beyond, states_[state].second, view);
    view = view.unsqueeze(0);  // one sequence
  };
  for (std::size_t leaf = 0; leaf < from.observation.size(); ++leaf) copy_state(leaf, from.observation[leaf]);
  if (from.action_mask.defined()) copy_state(from.observation.size(), from.action_mask);
}

}  // namespace tandem::rl
