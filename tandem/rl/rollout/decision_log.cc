#include "tandem/rl/rollout/decision_log.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// Each row completes a decision a step at most, and one that was open before.
int capacity_for(int steps, std::size_t rows) { return (steps + 1) * static_cast<int>(rows); }

std::vector<AgentRows::Column> columns_of(const Fragment& fragment) {
  std::vector<AgentRows::Column> columns;
  for (const at::Tensor& leaf : fragment.observation) columns.push_back(column_of(leaf));
  if (fragment.action_mask.defined()) columns.push_back(column_of(fragment.action_mask));
  for (const at::Tensor* each : {&fragment.action, &fragment.log_prob, &fragment.value})
    columns.push_back(column_of(*each));
  return columns;
}

}  // namespace

DecisionLog::DecisionLog(const Spec& spec, int steps, std::size_t agents, std::size_t envs)
    : capacity_(capacity_for(steps, agents * envs)),
      fragment_(spec, capacity_, 1),
      columns_(columns_of(fragment_)),
      open_(spec, agents, envs),
      state_(agents * envs, State::kNone),
      last_(agents * envs, kNoDecision),
      next_(static_cast<std::size_t>(capacity_)),
      next_value_(static_cast<std::size_t>(capacity_)) {}

void DecisionLog::begin() {
  fragment_.steps = 0;
  std::ranges::fill(last_, kNoDecision);
}

void DecisionLog::decide(const AgentRows& now) {
  for (std::size_t row = 0; row < state_.size(); ++row) {
    const bool acts = now.acts[row] != 0;
    if (state_[row] == State::kEnded || (state_[row] == State::kOpen && acts)) complete(row);
    if (!acts) continue;
    copy_row(now.columns(), row, open_.columns(), row);
    open_.reward[row] = 0;
    state_[row] = State::kOpen;
  }
}

// Moves the row's open decision into the fragment.
void DecisionLog::complete(std::size_t row) {
  TANDEM_CHECK(fragment_.steps < capacity_, fragment_.steps, " decisions");
  const int at = fragment_.steps++;
  const auto i = static_cast<std::size_t>(at);
  copy_row(open_.columns(), row, columns_, i);
  fragment_.reward.data_ptr<float>()[i] = static_cast<float>(open_.reward[row]);
  const bool ends = state_[row] == State::kEnded;
  fragment_.done.data_ptr<std::uint8_t>()[i] = ends ? 1 : 0;
  next_[i] = ends ? kEpisodeEnds : kBeyondFragment;
  if (last_[row] != kNoDecision) next_[static_cast<std::size_t>(last_[row])] = at;
  last_[row] = ends ? kNoDecision : at;
  state_[row] = State::kNone;
}

void DecisionLog::earn(const AgentRows& now, const float* rest) {
  for (std::size_t row = 0; row < state_.size(); ++row) {
    if (state_[row] != State::kOpen) continue;
    open_.reward[row] += now.reward[row];
    if (!now.ended(row)) continue;
    // In the precision of the rewards that are learned from, as RolloutWorker adds it.
    if (rest != nullptr) open_.reward[row] = static_cast<float>(open_.reward[row]) + rest[row];
    state_[row] = State::kEnded;
  }
}

Fragment& DecisionLog::end(const AgentRows& now, const float* next_value, double gamma, double lambda) {
  for (std::size_t row = 0; row < state_.size(); ++row) {
    const bool acts_next = now.acts[row] != 0;
    if (state_[row] == State::kEnded || (state_[row] == State::kOpen && acts_next)) complete(row);
    if (last_[row] == kNoDecision) continue;
    next_value_[static_cast<std::size_t>(last_[row])] =
        state_[row] == State::kOpen ? open_.value.const_data_ptr<float>()[row] : next_value[row];
  }
  compute_advantages(gamma, lambda);
  return fragment_;
}

// An agent's next decision comes later in the fragment, so that backwards its advantage is there already.
void DecisionLog::compute_advantages(double gamma, double lambda) {
  const auto discount = static_cast<float>(gamma), decay = static_cast<float>(gamma * lambda);
  const float* value = fragment_.value.const_data_ptr<float>();
  const float* reward = fragment_.reward.const_data_ptr<float>();
  float* advantage = fragment_.advantage.data_ptr<float>();
  float* target = fragment_.value_target.data_ptr<float>();
  for (int i = fragment_.steps - 1; i >= 0; --i) {
    const std::int32_t next = next_[static_cast<std::size_t>(i)];
    const float goes_on = next == kEpisodeEnds ? 0.0F : 1.0F;
    const float next_value = next >= 0 ? value[next] : next_value_[static_cast<std::size_t>(i)];
    const float next_advantage = next >= 0 ? advantage[next] : 0.0F;
    const float delta = reward[i] + discount * goes_on * (next == kEpisodeEnds ? 0.0F : next_value) - value[i];
    advantage[i] = delta + decay * goes_on * next_advantage;
    target[i] = advantage[i] + value[i];
  }
}

void DecisionLog::save(StateWriter& out) const {
  for (std::size_t row = 0; row < state_.size(); ++row) {
    out.put(state_[row]);
    if (state_[row] == State::kNone) continue;
    out.put(open_.reward[row]);
    for (const auto& [data, bytes] : open_.columns()) out.put_bytes({data + row * bytes, bytes});
  }
}

void DecisionLog::load(StateReader& in) {
  clear();
  for (std::size_t row = 0; row < state_.size(); ++row) {
    state_[row] = in.get<State>();
    if (state_[row] == State::kNone) continue;
    if (state_[row] != State::kOpen) in.fail("a decision that is neither open nor none");
    open_.reward[row] = in.get<double>();
    for (const auto& [data, bytes] : open_.columns()) {
      const std::span<const std::byte> its = in.get_bytes();
      if (its.size() != bytes) in.fail(concat("a decision has an entry of ", its.size(), " bytes, expected ", bytes));
      std::copy(its.begin(), its.end(), data + row * bytes);
    }
  }
}

void DecisionLog::clear() { std::ranges::fill(state_, State::kNone); }

}  // namespace tandem::rl
