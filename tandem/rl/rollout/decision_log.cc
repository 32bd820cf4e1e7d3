#include "tandem/rl/rollout/decision_log.h"

#include <algorithm>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// Each row completes a decision a step at most, and one that was open before.
int capacity_for(int steps, std::size_t rows) { return (steps + 1) * static_cast<int>(rows); }

// The number that any other plus it is the other, zeros of both signs included.
constexpr float kNoRest = -0.0F;

// Counts the columns that say what an agent sees, which list_columns() puts first.
std::size_t seen_columns(const Fragment& fragment) {
  return fragment.observation.size() + (fragment.action_mask.defined() ? 1 : 0);
}

}  // namespace

DecisionLog::DecisionLog(const Spec& spec, int steps, std::size_t agents, std::size_t envs,
                         const DecisionLogOptions& options)
    : spec_(spec),
      capacity_(capacity_for(steps, agents * envs)),
      options_(options),
      open_(spec, agents, envs, /*normalized=*/false, options.state_size),
      state_(agents * envs, State::kNone),
      rest_(agents * envs, kNoRest),
      discounted_(options.scales ? agents * envs : 0, 0.0),
      last_(agents * envs, kNoDecision),
      next_value_(static_cast<std::size_t>(capacity_)) {
  if (options.state_size == 0) return;
  row_of_.resize(static_cast<std::size_t>(capacity_));
  const KeptStates states{.sequences = std::ssize(state_) * SequenceCut(steps + 1, options.sequences).count(),
                          .size = options.state_size};
  joined_ = std::make_unique<Fragment>(spec, capacity_, 1, states);
}

// Beyond the fragment there is one row an agent at most.
DecisionFragment DecisionLog::make_fragment() const {
  return {.decisions = Fragment(spec_, capacity_ + static_cast<int>(state_.size()), 1),
          .next = std::vector<std::int64_t>(static_cast<std::size_t>(capacity_)),
          .states = options_.state_size > 0 ? at::zeros({capacity_, options_.state_size}) : at::Tensor()};
}

DecisionFragment& DecisionLog::own() {
  if (!own_) own_ = std::make_unique<DecisionFragment>(make_fragment());
  return *own_;
}

void DecisionLog::begin(DecisionFragment& into, const RewardScale& scale) {
  into_ = &into;
  scale_ = scale;
  list_columns(into.decisions, into.decisions.value, into.states, columns_);
  into.decisions.steps = 0;
  into.beyond = 0;
  std::ranges::fill(last_, kNoDecision);
}

void DecisionLog::rest() {
  own().decisions.steps = 0;
  completed_ = 0;
  if (!joined_) return;
  joined_->steps = 0;
  joined_->joined.assign(state_.size(), 0);
}

// Per row: kNone -> kOpen when its agent decides, kOpen -> kEnded when its episode ends, and back to kNone when the
// decision is moved into the fragment, which happens before the agent decides again.
void DecisionLog::decide(const AgentRows& now) {
  for (std::size_t row = 0; row < state_.size(); ++row) {
    const bool acts = now.acts[row] != 0;
    if (state_[row] == State::kEnded || (state_[row] == State::kOpen && acts)) complete(row);
    if (!acts) continue;
    copy_row(now.columns(), row, open_.columns(), row);
    open_.reward[row] = 0;
    rest_[row] = kNoRest;
    state_[row] = State::kOpen;
  }
}

// Moves the row's open decision into the fragment.
void DecisionLog::complete(std::size_t row) {
  Fragment& decisions = into_->decisions;
  TANDEM_CHECK(decisions.steps < capacity_, decisions.steps, " decisions");
  const int at = decisions.steps++;
  const auto i = static_cast<std::size_t>(at);
  copy_row(open_.columns(), row, columns_, i);
  if (!row_of_.empty()) row_of_[i] = row;
  decisions.reward.data_ptr<float>()[i] = learned_reward(row);
  const bool ends = state_[row] == State::kEnded;
  decisions.done.data_ptr<std::uint8_t>()[i] = ends ? 1 : 0;
  into_->next[i] = ends ? kEpisodeEnds : kBeyondFragment;
  // The agent's decision before this one was waiting to learn what follows it.
  if (last_[row] != kNoDecision) into_->next[static_cast<std::size_t>(last_[row])] = at;
  last_[row] = ends ? kNoDecision : at;
  state_[row] = State::kNone;
}

// The reward of the row's open decision, as RolloutWorker computes it of a step: scaled by the spread of returns before
// this one, which is gathered then.
float DecisionLog::learned_reward(std::size_t row) {
  const double sum = open_.reward[row];
  if (discounted_.empty()) return static_cast<float>(sum) + rest_[row];
  double& discounted = discounted_[row];
  discounted = scale_.gamma * discounted + sum;
  scale_.returns->add(&discounted);
  if (state_[row] == State::kEnded) discounted = 0;
  return scale_.frozen->scale_reward(sum) + rest_[row];
}

void DecisionLog::earn(const AgentRows& now, const float* rest) {
  for (std::size_t row = 0; row < state_.size(); ++row) {
    if (state_[row] != State::kOpen) continue;
    open_.reward[row] += now.reward[row];
    if (!now.ended(row)) continue;
    if (rest != nullptr) rest_[row] = rest[row];
    state_[row] = State::kEnded;
  }
}

// At the fragment's end, completes the decisions whose outcome is known.
void DecisionLog::complete_all(const AgentRows& now) {
  for (std::size_t row = 0; row < state_.size(); ++row) {
    const bool acts_next = now.acts[row] != 0;
    if (state_[row] == State::kEnded || (state_[row] == State::kOpen && acts_next)) complete(row);
  }
  completed_ = into_->decisions.steps;
}

// An agent whose last decision has no successor bootstraps: with the value of its open decision where it has one, and
// else with the value of what it sees now.
Fragment& DecisionLog::end(const AgentRows& now, const float* next_value, double gamma, double lambda) {
  complete_all(now);
  for (std::size_t row = 0; row < state_.size(); ++row) {
    if (last_[row] == kNoDecision) continue;
    next_value_[static_cast<std::size_t>(last_[row])] =
        state_[row] == State::kOpen ? open_.value.const_data_ptr<float>()[row] : next_value[row];
  }
  compute_advantages(gamma, lambda);
  if (!joined_) return into_->decisions;
  join();
  return *joined_;
}

int DecisionLog::pieces() const {
  if (!joined_) return completed_;
  int count = 0;
  for (const int decisions : joined_->joined) count += SequenceCut(decisions, options_.sequences).count();
  return count;
}

// Counts the decisions of each row, which says where its first one goes, then copies all of them, and the state of each
// with which a sequence begins.
void DecisionLog::join() {
  const Fragment& from = into_->decisions;
  Fragment& to = *joined_;
  const auto count = static_cast<std::size_t>(from.steps);
  to.steps = from.steps;
  to.joined.assign(state_.size(), 0);
  for (std::size_t i = 0; i < count; ++i) ++to.joined[row_of_[i]];
  std::vector<std::size_t> next(state_.size(), 0), first_sequence(state_.size(), 0);
  for (std::size_t row = 1; row < next.size(); ++row) {
    next[row] = next[row - 1] + static_cast<std::size_t>(to.joined[row - 1]);
    first_sequence[row] =
        first_sequence[row - 1] + static_cast<std::size_t>(SequenceCut(to.joined[row - 1], options_.sequences).count());
  }
  std::vector<int> made(state_.size(), 0);
  std::vector<AgentRows::Column> columns;
  list_columns(to, to.value, {}, columns);
  const auto copy = [](const at::Tensor& all, std::size_t at, const at::Tensor& into, std::size_t place) {
    into.data_ptr<float>()[place] = all.const_data_ptr<float>()[at];
  };
  const auto size = static_cast<std::size_t>(options_.state_size),
             length = static_cast<std::size_t>(options_.sequences.length);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = row_of_[i], place = next[row]++;
    copy_row(std::span(columns_).first(columns.size()), i, columns, place);
    copy(from.reward, i, to.reward, place);
    copy(from.advantage, i, to.advantage, place);
    copy(from.value_target, i, to.value_target, place);
    to.done.data_ptr<std::uint8_t>()[place] = from.done.const_data_ptr<std::uint8_t>()[i];
    const auto before = static_cast<std::size_t>(made[row]++);
    const std::size_t sequence = before / length;
    // A burn-in of the whole rest leaves no sequence to begin.
    if (before % length != 0 ||
        sequence >= static_cast<std::size_t>(SequenceCut(to.joined[row], options_.sequences).count()))
      continue;
    std::copy_n(into_->states.const_data_ptr<float>() + i * size, size,
                to.state.data_ptr<float>() + (first_sequence[row] + sequence) * size);
  }
}

// Where end() takes a value, this copies the observation and mask, since the learner's own policy will value them. They
// lie behind the decisions of the fragment.
void DecisionLog::end_with_next(const AgentRows& now) {
  complete_all(now);
  const std::size_t seen = seen_columns(into_->decisions);
  for (std::size_t row = 0; row < state_.size(); ++row) {
    if (last_[row] == kNoDecision) continue;
    const int at = into_->decisions.steps + into_->beyond++;
    const AgentRows& follows = state_[row] == State::kOpen ? open_ : now;
    copy_row(std::span(follows.columns()).first(seen), row, std::span(columns_).first(seen),
             static_cast<std::size_t>(at));
    into_->next[static_cast<std::size_t>(last_[row])] = at;
  }
}

// An agent's next decision comes later in the fragment, so that backwards its advantage is there already.
void DecisionLog::compute_advantages(double gamma, double lambda) {
  const auto discount = static_cast<float>(gamma), decay = static_cast<float>(gamma * lambda);
  const Fragment& decisions = into_->decisions;
  const float* value = decisions.value.const_data_ptr<float>();
  const float* reward = decisions.reward.const_data_ptr<float>();
  float* advantage = decisions.advantage.data_ptr<float>();
  float* target = decisions.value_target.data_ptr<float>();
  for (int i = decisions.steps - 1; i >= 0; --i) {
    const std::int64_t next = into_->next[static_cast<std::size_t>(i)];
    const float goes_on = next == kEpisodeEnds ? 0.0F : 1.0F;
    const float next_value = next >= 0 ? value[next] : next_value_[static_cast<std::size_t>(i)];
    const float next_advantage = next >= 0 ? advantage[next] : 0.0F;
    const float delta = reward[i] + discount * goes_on * (next == kEpisodeEnds ? 0.0F : next_value) - value[i];
    advantage[i] = delta + decay * goes_on * next_advantage;
    target[i] = advantage[i] + value[i];
  }
}

// Discounted returns come first, where there are some. Then the format per row: state, and for an open decision its
// reward and the bytes of each column.
void DecisionLog::save(StateWriter& out) const {
  for (const double value : discounted_) out.put(value);
  for (std::size_t row = 0; row < state_.size(); ++row) {
    out.put(state_[row]);
    if (state_[row] == State::kNone) continue;
    out.put(open_.reward[row]);
    for (const auto& [data, bytes] : open_.columns()) out.put_bytes({data + row * bytes, bytes});
  }
}

void DecisionLog::load(StateReader& in) {
  clear();
  for (double& value : discounted_) value = in.get<double>();
  for (std::size_t row = 0; row < state_.size(); ++row) {
    state_[row] = in.get<State>();
    if (state_[row] == State::kNone) continue;
    // Between fragments nothing is kEnded: complete_all() has moved such decisions.
    if (state_[row] != State::kOpen) in.fail("a decision that is neither open nor none");
    open_.reward[row] = in.get<double>();
    for (const auto& [data, bytes] : open_.columns()) {
      const std::span<const std::byte> its = in.get_bytes();
      if (its.size() != bytes) in.fail(concat("a decision has an entry of ", its.size(), " bytes, expected ", bytes));
      std::copy(its.begin(), its.end(), data + row * bytes);
    }
  }
}

void DecisionLog::clear() {
  std::ranges::fill(state_, State::kNone);
  std::ranges::fill(rest_, kNoRest);
  std::ranges::fill(discounted_, 0.0);
}

}  // namespace tandem::rl
