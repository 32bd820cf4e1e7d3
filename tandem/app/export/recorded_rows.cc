#include "tandem/app/export/recorded_rows.h"

#include <ATen/ATen.h>

#include <vector>

namespace tandem::app {
namespace {

// One row of so many is kept, another one at each step, so that rows are of many moments of many episodes.
constexpr std::size_t kEvery = 8;

// Thrown through evaluate() when there are enough rows.
struct Enough {};

struct Collected {
  std::vector<std::vector<at::Tensor>> raw, seen;  // by leaf
  std::vector<at::Tensor> mask, state;
};

// The rows are written over by the next step, so they are copied.
void take_row(const rl::AgentRows& rows, std::int64_t row, Collected& into) {
  into.raw.resize(rows.raw().size());
  into.seen.resize(rows.raw().size());
  for (std::size_t leaf = 0; leaf < rows.raw().size(); ++leaf) {
    into.raw[leaf].push_back(rows.raw()[leaf][row].clone());
    into.seen[leaf].push_back(rows.observation[leaf][row].clone());
  }
  if (rows.action_mask.defined()) into.mask.push_back(rows.action_mask[row].clone());
  if (rows.state.defined()) into.state.push_back(rows.state[row].clone());
}

rl::Observation stacked(const std::vector<std::vector<at::Tensor>>& leaves) {
  rl::Observation all;
  for (const std::vector<at::Tensor>& leaf : leaves) all.push_back(at::stack(leaf));
  return all;
}

}  // namespace

RecordedRows record_rows(const model::Checkpoint& checkpoint, const TrainOptions& options,
                         const rl::EnvRegistry& environments, const std::string& policy, std::int64_t rows) {
  Collected collected;
  std::int64_t count = 0;
  std::size_t step = 0;
  const auto take = [&](const std::string& name, const rl::AgentRows& now) {
    if (name != policy) return;
    for (std::size_t row = step++ % kEvery % now.rows(); row < now.rows(); row += kEvery) {
      if (now.acts[row] == 0) continue;
      take_row(now, static_cast<std::int64_t>(row), collected);
      if (++count == rows) throw Enough();
    }
  };
  try {
    // More episodes than are needed; the last of them are not begun.
    (void)evaluate(parts_of(checkpoint), options, environments, {.episodes = 32 * rows, .on_decisions = take});
  } catch (const Enough&) {
  }
  return {.raw = stacked(collected.raw),
          .seen = stacked(collected.seen),
          .mask = collected.mask.empty() ? at::Tensor() : at::stack(collected.mask),
          .state = collected.state.empty() ? at::Tensor() : at::stack(collected.state)};
}

}  // namespace tandem::app
