#include "tandem/rl/rollout/agent_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"
#include "tandem/rl/rollout/act_on.h"
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {
namespace {

// A row of a contiguous tensor [rows, ...].
std::byte* row_of(const at::Tensor& leaf, std::size_t row) {
  return static_cast<std::byte*>(leaf.data_ptr()) + row * (leaf.nbytes() / static_cast<std::size_t>(leaf.size(0)));
}

// All rows are valued where an episode is cut short, also those that no end was written to yet. So these have to be
// observations: integers lie within their bounds.
void make_observations(const Spec& spec, const std::vector<at::Tensor>& leaves) {
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const Leaf& leaf = spec.observation[l];
    if (leaf.type != ElementType::kInt64 || leaf.low.empty()) continue;
    const at::Tensor low = at::tensor(leaf.low, at::kDouble).to(at::kLong);
    leaves[l].view({leaves[l].size(0), leaf.count()}).copy_(low.expand({leaves[l].size(0), leaf.count()}));
  }
}

}  // namespace

// A fragment of one step has these arrays, with a dimension of time.
AgentRows::AgentRows(const Spec& spec, std::size_t agents, std::size_t envs, bool normalized, std::int64_t state_size,
                     std::shared_ptr<Remarks> remarks)
    : reward(agents * envs, 0.0),
      acts(agents * envs, 0),
      terminated(agents * envs, 0),
      truncated(agents * envs, 0),
      spec_(spec),
      envs_(envs),
      intake_(spec, normalized, std::move(remarks)) {
  const Fragment one(spec, 1, static_cast<int>(agents * envs));
  observation = one.observation_at(0);
  final_observation = one.observation_at(1);
  make_observations(spec, final_observation);
  raw_ = observation;
  raw_final_ = final_observation;
  if (intake_.converts_any()) {
    const std::vector<at::Tensor> own = intake_.memory(one.rows), own_final = intake_.memory(one.rows);
    for (std::size_t leaf = 0; leaf < raw_.size(); ++leaf) {
      if (intake_.converts(leaf)) raw_[leaf] = own[leaf];
      if (intake_.narrows(leaf)) raw_final_[leaf] = own_final[leaf];
    }
  }
  if (one.action_mask.defined()) action_mask = one.action_mask[0];
  action = one.action[0];
  log_prob = one.log_prob[0];
  value = one.value[0];
  if (state_size > 0) state = at::zeros({static_cast<std::int64_t>(rows()), state_size});
  list_columns(*this, value, state, columns_);
  // Actions within bounds have memory of their own: the learner needs those that the policy drew.
  if (std::holds_alternative<Box>(spec.action))
    box_.resize(rows() * static_cast<std::size_t>(action_elements(spec.action)));
}

// Actors act for all rows, so the state of those whose agent waits is put back.
void AgentRows::act(Actor& actor) {
  const at::Tensor present = actor.state();
  if (!present.defined()) return act_on(spec_, actor, observation, action_mask, decisions());
  state.copy_(present);
  act_on(spec_, actor, observation, action_mask, decisions());
  const auto size = static_cast<std::size_t>(present.size(1));
  for (std::size_t row = 0; row < rows(); ++row) {
    if (acts[row] == 0)
      std::copy_n(state.const_data_ptr<float>() + row * size, size, present.data_ptr<float>() + row * size);
  }
}

void AgentRows::show(const Normalizers* frozen) {
  if (!intake_.converts_any()) return;
  for (std::size_t leaf = 0; leaf < raw_.size(); ++leaf) {
    if (intake_.converts(leaf))
      intake_.show(leaf, raw_[leaf].const_data_ptr(), observation[leaf].data_ptr(), static_cast<std::int64_t>(rows()),
                   frozen);
  }
}

void AgentRows::show_final(const Normalizers* frozen, std::size_t row) {
  if (!intake_.converts_any()) return;
  for (std::size_t leaf = 0; leaf < raw_final_.size(); ++leaf) {
    if (intake_.converts(leaf))
      intake_.show(leaf, row_of(raw_final_[leaf], row), row_of(final_observation[leaf], row), 1, frozen, row);
  }
}

void AgentRows::gather(NormalizerMoments& moments) const {
  for (std::size_t leaf = 0; leaf < raw_.size(); ++leaf) {
    for (std::size_t row = 0; row < rows(); ++row) {
      if (acts[row] != 0) intake_.gather(leaf, row_of(raw_[leaf], row), moments.observation[leaf]);
    }
  }
}

// Rows of one agent lie together, so its arrays begin at row k * envs_ of each tensor.
AgentArrays AgentRows::arrays_of(std::size_t k) {
  const std::size_t first = k * envs_;
  AgentArrays arrays;
  for (std::size_t leaf = 0; leaf < raw_.size(); ++leaf) {
    arrays.env.observation.push_back(row_of(raw_[leaf], first));
    arrays.env.final_observation.push_back(row_of(raw_final_[leaf], first));
  }
  if (action_mask.defined())
    arrays.env.action_mask =
        action_mask.data_ptr<std::uint8_t>() + first * static_cast<std::size_t>(mask_elements(spec_.action));
  arrays.env.reward = reward.data() + first;
  arrays.env.terminated = terminated.data() + first;
  arrays.env.truncated = truncated.data() + first;
  arrays.acts = acts.data() + first;
  return arrays;
}

Decisions AgentRows::decisions() {
  Decisions decisions{.log_prob = log_prob.data_ptr<float>(), .value = value.data_ptr<float>()};
  if (box_.empty()) {
    decisions.discrete = action.data_ptr<std::int64_t>();
  } else {
    decisions.box = action.data_ptr<float>();
  }
  return decisions;
}

void AgentRows::to_bounds() {
  if (box_.empty()) return;
  rl::to_bounds(std::get<Box>(spec_.action), action.const_data_ptr<float>(), static_cast<std::int64_t>(rows()),
                box_.data());
}

EnvActions AgentRows::actions_of(std::size_t k) const {
  const std::size_t offset = k * envs_ * static_cast<std::size_t>(action_elements(spec_.action));
  if (box_.empty()) return {.discrete = action.const_data_ptr<std::int64_t>() + offset};
  return {.box = box_.data() + offset};
}

void list_columns(const ActedRows& rows, const at::Tensor& value, const at::Tensor& state,
                  std::vector<AgentRows::Column>& columns) {
  columns.clear();
  const auto add = [&columns](const at::Tensor& tensor) {
    TANDEM_CHECK(tensor.is_contiguous() && tensor.size(0) > 0, tensor.sizes());
    columns.push_back(
        {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes() / static_cast<std::size_t>(tensor.size(0))});
  };
  for (const at::Tensor& leaf : rows.observation) add(leaf);
  if (rows.action_mask.defined()) add(rows.action_mask);
  for (const at::Tensor* each : {&rows.action, &rows.log_prob, &value}) add(*each);
  if (state.defined()) add(state);
}

void copy_row(std::span<const AgentRows::Column> from, std::size_t row, std::span<const AgentRows::Column> to,
              std::size_t to_row) {
  TANDEM_CHECK(from.size() == to.size(), from.size(), " columns and ", to.size());
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(to[i].data + to_row * to[i].bytes, from[i].data + row * from[i].bytes, from[i].bytes);
}

}  // namespace tandem::rl
