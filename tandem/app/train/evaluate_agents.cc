#include "tandem/app/train/evaluate_agents.h"

#include <algorithm>

#include "tandem/app/train/multi_agent.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/rollout/agent_rows.h"

namespace tandem::app {
namespace {

// One policy and what its agents see and do.
struct Seat {
  TrainedPolicy trained;
  std::vector<std::size_t> agents;
  rl::AgentRows now;
  std::unique_ptr<rl::Actor> actor;
};

// As Player of evaluate.cc: one episode an environment at a time.
class AgentsPlayer {
 public:
  AgentsPlayer(std::vector<Seat> seats, std::unique_ptr<rl::MultiAgentGroup> group)
      : seats_(std::move(seats)), group_(std::move(group)), agents_(group_->spec().agents.size()) {
    arrays_.resize(agents_);
    actions_.resize(agents_);
    // Arrays are by agent of the environment; a seat's rows hold its agents one after the other, so each agent's arrays
    // point into them.
    for (Seat& seat : seats_) {
      for (std::size_t k = 0; k < seat.agents.size(); ++k) arrays_[seat.agents[k]] = seat.now.arrays_of(k);
    }
  }

  // The first `count` environments' episodes.
  void play(std::span<const std::uint64_t> seeds, std::size_t count, AgentsEvaluation& into) {
    group_->reset(seeds, arrays_);
    for (Seat& seat : seats_) seat.actor->refresh();
    std::vector<Evaluation> played(agents_, Evaluation{.returns = std::vector<double>(count, 0.0),
                                                       .lengths = std::vector<std::int64_t>(count, 0)});
    std::vector<std::vector<std::uint8_t>> finished(agents_, std::vector<std::uint8_t>(count, 0));
    for (std::size_t left = agents_ * count; left > 0;) {
      step();
      for (std::size_t agent = 0; agent < agents_; ++agent) {
        for (std::size_t env = 0; env < count; ++env) {
          if (finished[agent][env] != 0) continue;  // it waits for the others, or plays the next episode
          const rl::EnvArrays& its = arrays_[agent].env;
          played[agent].returns[env] += its.reward[env];
          ++played[agent].lengths[env];
          finished[agent][env] = its.terminated[env] | its.truncated[env];
          left -= finished[agent][env];
        }
      }
    }
    take(played, count, into);
  }

 private:
  // All policies act on the same moment before the environments step, as they did in training.
  void step() {
    for (Seat& seat : seats_) {
      seat.actor->act(seat.now.observation, seat.now.mask, seat.now.decisions());
      seat.now.to_bounds(seat.trained.policy->family());
      for (std::size_t k = 0; k < seat.agents.size(); ++k) actions_[seat.agents[k]] = seat.now.actions_of(k);
    }
    group_->step(actions_, arrays_);
  }

  // Appends the round's episodes: for each agent, and for the whole the sum of returns and the longest length.
  void take(const std::vector<Evaluation>& played, std::size_t count, AgentsEvaluation& into) const {
    for (std::size_t env = 0; env < count; ++env) {
      double sum = 0;
      std::int64_t length = 0;
      for (std::size_t agent = 0; agent < agents_; ++agent) {
        Evaluation& its = into.agents[agent].played;
        its.returns.push_back(played[agent].returns[env]);
        its.lengths.push_back(played[agent].lengths[env]);
        sum += its.returns.back();
        length = std::max(length, its.lengths.back());
      }
      into.whole.returns.push_back(sum);
      into.whole.lengths.push_back(length);
    }
  }

  std::vector<Seat> seats_;
  const std::unique_ptr<rl::MultiAgentGroup> group_;
  const std::size_t agents_;
  std::vector<rl::AgentArrays> arrays_;  // by agent of the environment
  std::vector<rl::EnvActions> actions_;  // likewise
};

}  // namespace

AgentsEvaluation evaluate_agents(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                 const rl::MultiAgentEntry& entry, rl::Acting acting, std::int64_t episodes,
                                 std::uint64_t seed) {
  const auto envs = static_cast<std::size_t>(episodes_at_once(episodes));
  AgentsEvaluation result;
  for (const rl::AgentSpec& agent : entry.spec.agents)
    result.agents.push_back({.agent = agent.name, .policy = {}, .played = {}});
  std::vector<Seat> seats;
  for (const rl::MappedPolicy& policy : policy_map_of(options, entry)) {
    for (const std::size_t agent : policy.agents) result.agents[agent].policy = policy.name;
    Seat seat{.trained = load_policy(checkpoint, options, entry, policy.name),
              .agents = policy.agents,
              .now = rl::AgentRows(policy.spec, policy.agents.size(), envs),
              .actor = nullptr};
    seat.actor = rl::make_actor(*seat.trained.policy, {.acting = acting}, static_cast<std::int64_t>(seat.now.rows()),
                                seed, static_cast<int>(seats.size()));
    seats.push_back(std::move(seat));
  }
  AgentsPlayer player(std::move(seats), entry.make(static_cast<int>(envs)));
  for_each_round(episodes, seed,
                 [&](std::span<const std::uint64_t> seeds, std::size_t count) { player.play(seeds, count, result); });
  return result;
}

}  // namespace tandem::app
