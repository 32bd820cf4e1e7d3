#include "tandem/rl/rollout/multi_agent_worker.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/rounding.h"
#include "tandem/concurrency/trace.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {
namespace {

constexpr std::uint32_t kAgentsFormat = 1;

std::int64_t state_size_of(const Actor& actor) {
  const at::Tensor state = actor.state();
  return state.defined() ? state.size(1) : 0;
}

}  // namespace

MultiAgentWorker::Seat::Seat(PolicySeat seat, const RolloutOptions& options, std::size_t envs)
    : policy(std::move(seat)),
      now(policy.spec, policy.agents.size(), envs, options.normalizer.observations, state_size_of(*policy.actor),
          options.remarks),
      moments(policy.spec, options.normalizer),
      done(now.rows()),
      values(now.rows()),
      running_return(now.rows()) {
  if (!policy.learns) return;
  const DecisionLogOptions of_log{
      .scales = options.normalizer.rewards, .state_size = state_size_of(*policy.actor), .sequences = options.sequences};
  log.emplace(policy.spec, options.steps, policy.agents.size(), envs, of_log);
}

MultiAgentWorker::MultiAgentWorker(std::unique_ptr<MultiAgentGroup> group, std::vector<PolicySeat> seats,
                                   const RolloutOptions& options, int first_env)
    : group_(std::move(group)),
      options_(options),
      first_env_(first_env),
      arrays_(group_->spec().agents.size()),
      actions_(arrays_.size()),
      in_game_(static_cast<std::size_t>(group_->size())),
      running_(in_game_.size()),
      metrics_(in_game_.size() * group_->spec().metrics.size()) {
  std::size_t seated = 0;
  for (PolicySeat& seat : seats) {
    seated += seat.agents.size();
    // The group writes rows of its own spec into memory of the seat's.
    for (const std::size_t agent : seat.agents)
      TANDEM_CHECK(group_->spec().agents[agent].observation == seat.spec.observation, group_->spec().id, ": agent ",
                   agent, " has another observation than its seat");
    seats_.emplace_back(std::move(seat), options, in_game_.size());
  }
  TANDEM_CHECK(seated == arrays_.size(), seated, " seats for ", arrays_.size(), " agents of ", group_->spec().id);
  for (Seat& seat : seats_) {
    for (std::size_t k = 0; k < seat.policy.agents.size(); ++k) arrays_[seat.policy.agents[k]] = seat.now.arrays_of(k);
  }
  if (!metrics_.empty()) arrays_.front().env.metrics = metrics_.data();
}

void MultiAgentWorker::reset(std::uint64_t run_seed) {
  const KeptRounding kept;
  group_->reset(seeds_of_envs(run_seed, first_env_, envs()), arrays_);
  std::ranges::fill(in_game_, arrays_.size());
  std::ranges::fill(running_, Running{});
  for (Seat& seat : seats_) {
    seat.policy.actor->episodes_ended(std::vector<std::uint8_t>(seat.now.rows(), 1));
    std::ranges::fill(seat.running_return, 0.0);
    if (seat.log) seat.log->clear();
  }
}

void MultiAgentWorker::collect(std::span<const Normalizers> frozen,
                               std::span<const std::unique_ptr<DecisionFragment>> into) {
  const Span span("rollout");
  const at::NoGradGuard no_grad;
  begin(frozen, into);
  while (at_ < options_.steps) step();
  end(!into.empty());
}

void MultiAgentWorker::step_sample(std::span<const Normalizers> /*frozen*/) {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(at_ < options_.steps, "step ", at_, " of a fragment of ", options_.steps);
  step();
}

void MultiAgentWorker::rest() {
  at_ = 0;
  for (Seat& seat : seats_) {
    seat.moments.clear();
    if (seat.log) seat.log->rest();
  }
}

// Begins the logs. What agents see at present is shown anew, since the statistics may be others than those of the
// last fragment.
void MultiAgentWorker::begin(std::span<const Normalizers> frozen,
                             std::span<const std::unique_ptr<DecisionFragment>> into) {
  const at::NoGradGuard no_grad;
  at_ = 0;
  const bool normalizes = options_.normalizer.any();
  TANDEM_CHECK(into.empty() || into.size() == seats_.size(), into.size(), " fragments for ", seats_.size(),
               " policies");
  TANDEM_CHECK(!normalizes || frozen.size() == seats_.size(), frozen.size(), " normalisers for ", seats_.size(),
               " policies");
  for (std::size_t policy = 0; policy < seats_.size(); ++policy) {
    Seat& seat = seats_[policy];
    seat.policy.actor->refresh();
    seat.moments.clear();
    seat.frozen = normalizes ? &frozen[policy] : nullptr;
    seat.now.show(seat.frozen);
    if (!seat.log) continue;
    const RewardScale scale{.frozen = seat.frozen, .returns = &seat.moments.discounted_return, .gamma = options_.gamma};
    into.empty() ? seat.log->begin(scale) : seat.log->begin(*into[policy], scale);
  }
}

// Ends the logs. In memory of the worker's own, what agents see at the end is valued here; else that is left to the
// learner.
void MultiAgentWorker::end(bool with_next) {
  const at::NoGradGuard no_grad;
  for (Seat& seat : seats_) {
    if (!seat.log) continue;
    if (with_next) {
      seat.log->end_with_next(seat.now);
      continue;
    }
    seat.policy.actor->evaluate(seat.now.observation, seat.policy.actor->state(), seat.values.data());
    (void)seat.log->end(seat.now, seat.values.data(), options_.gamma, options_.gae_lambda);
  }
}

std::vector<std::unique_ptr<DecisionFragment>> MultiAgentWorker::make_fragments() const {
  std::vector<std::unique_ptr<DecisionFragment>> fragments;
  for (const Seat& seat : seats_)
    fragments.push_back(seat.log ? std::make_unique<DecisionFragment>(seat.log->make_fragment()) : nullptr);
  return fragments;
}

// All seats act, then the environments step once with the actions of all agents, then each seat is told what came of
// it. Actors are called for every row; the log takes the decisions of those that act.
void MultiAgentWorker::step() {
  for (Seat& seat : seats_) {
    const Span span("act");
    seat.now.act(*seat.policy.actor);
    if (seat.log) seat.log->decide(seat.now);
    seat.now.to_bounds();
    for (std::size_t k = 0; k < seat.policy.agents.size(); ++k)
      actions_[seat.policy.agents[k]] = seat.now.actions_of(k);
  }
  {
    const Span span("step environments");
    const CallMark::Call inside = mark_.enter();
    const KeptRounding kept;
    group_->step(actions_, arrays_);
  }
  for (Seat& seat : seats_) {
    if (seat.log) earn(seat);
    record(seat, at_);
    if (options_.normalizer.observations && seat.log) seat.now.gather(seat.moments);
    seat.now.show(seat.frozen);
  }
  record_environments(at_);
  ++at_;
}

// Most steps cut no episode short, and then the network is not asked for values.
void MultiAgentWorker::earn(Seat& seat) {
  AgentRows& now = seat.now;
  bool cut_short = false;
  for (std::size_t row = 0; row < now.rows(); ++row) {
    if (now.truncated[row] == 0 || now.terminated[row] != 0) continue;
    cut_short = true;
    now.show_final(seat.frozen, row);
  }
  if (!cut_short || options_.time_limit == TimeLimit::kTerminal) return seat.log->earn(now, nullptr);
  // An episode that was cut short goes on in truth: gamma * V(last observation) stands for the rest of its return.
  seat.policy.actor->evaluate(now.final_observation, seat.policy.actor->state(), seat.values.data());
  for (std::size_t row = 0; row < now.rows(); ++row) {
    const bool goes_on = now.truncated[row] != 0 && now.terminated[row] == 0;
    seat.values[row] = goes_on ? static_cast<float>(options_.gamma) * seat.values[row] : 0.0F;
  }
  seat.log->earn(now, seat.values.data());
}

// After the seats' record(), which goes by the environments' clocks.
void MultiAgentWorker::record_environments(int t) {
  const auto metrics = static_cast<std::ptrdiff_t>(group_->spec().metrics.size());
  for (std::size_t env = 0; env < in_game_.size(); ++env) {
    Running& running = running_[env];
    ++running.length;
    for (const AgentArrays& agent : arrays_) {
      running.episode_return += agent.env.reward[env];
      if ((agent.env.terminated[env] | agent.env.truncated[env]) != 0) --in_game_[env];
    }
    // An environment's episode ends with its last agent; the group has started the next one already.
    if (in_game_[env] != 0) continue;
    const auto measured = metrics_.begin() + static_cast<std::ptrdiff_t>(env) * metrics;
    finished_.push_back({running.episode_return,
                         running.length,
                         t,
                         first_env_ + static_cast<int>(env),
                         {measured, measured + metrics}});
    running = {};
    in_game_[env] = arrays_.size();
  }
}

// Lengths are those of the environment, plus the present step, which record_environments() has not counted yet.
void MultiAgentWorker::record(Seat& seat, int t) {
  const std::size_t envs = in_game_.size();
  const int first_row = first_env_ * static_cast<int>(seat.policy.agents.size());
  bool any = false;
  for (std::size_t row = 0; row < seat.now.rows(); ++row) {
    seat.running_return[row] += seat.now.reward[row];
    seat.done[row] = seat.now.ended(row) ? 1 : 0;
    if (seat.done[row] == 0) continue;
    any = true;
    seat.finished.push_back(
        {seat.running_return[row], running_[row % envs].length + 1, t, first_row + static_cast<int>(row), {}});
    seat.running_return[row] = 0;
  }
  if (any) seat.policy.actor->episodes_ended(seat.done);
}

int MultiAgentWorker::decisions(std::size_t policy) const {
  const std::optional<DecisionLog>& log = seats_[policy].log;
  return log ? log->completed() : 0;
}

void MultiAgentWorker::clear_episodes() {
  finished_.clear();
  for (Seat& seat : seats_) seat.finished.clear();
}

// take_results() of group_results.h reads in the same order.
void MultiAgentWorker::append_results(std::vector<double>& numbers) {
  for (const Seat& seat : seats_) seat.moments.append_numbers(numbers);
  append_episodes(finished_, numbers);
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    append_episodes(seats_[seat].finished, numbers);
    numbers.push_back(decisions(seat));
    numbers.push_back(seats_[seat].log ? seats_[seat].log->pieces() : 0);
  }
  clear_episodes();
}

// load() reads in the same order. Empty bytes of the environments mean that they cannot be saved.
std::vector<std::byte> MultiAgentWorker::save() const {
  StateWriter out;
  out.put(kAgentsFormat);
  out.put(std::uint64_t{in_game_.size()});
  out.put(std::uint64_t{seats_.size()});
  out.put_bytes(group_->can_save() ? group_->save() : std::vector<std::byte>());
  for (std::size_t env = 0; env < in_game_.size(); ++env) {
    out.put(std::uint64_t{in_game_[env]});
    out.put(running_[env].episode_return);
    out.put(running_[env].length);
  }
  for (const Seat& seat : seats_) {
    out.put_bytes(seat.policy.actor->save());
    for (const double value : seat.running_return) out.put(value);
    if (seat.log) seat.log->save(out);
  }
  return out.take();
}

// Everything is read before it is known whether the environments can go on; if not, reset() begins new episodes.
GroupWorker::Resumed MultiAgentWorker::load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes) {
  StateReader in(state, concat("env group with environment ", first_env_));
  in.expect(kAgentsFormat, "its format");
  in.expect(std::uint64_t{in_game_.size()}, "its number of environments");
  in.expect(std::uint64_t{seats_.size()}, "its number of policies");
  const std::span<const std::byte> environments = in.get_bytes();
  for (std::size_t env = 0; env < in_game_.size(); ++env) {
    in_game_[env] = in.get<std::uint64_t>();
    running_[env].episode_return = in.get<double>();
    running_[env].length = in.get<std::int64_t>();
  }
  for (Seat& seat : seats_) {
    seat.policy.actor->load(in.get_bytes());
    for (double& value : seat.running_return) value = in.get<double>();
    if (seat.log) seat.log->load(in);
  }
  in.expect_end();
  if (environments.empty()) {
    reset(seed_for_new_episodes);
    return group_->can_save() ? Resumed::kAfterALoss : Resumed::kWithNewEpisodes;
  }
  group_->load(environments, arrays_);
  return Resumed::kExactly;
}

}  // namespace tandem::rl
