#include "tandem/rl/algo/ppo/multi_agent_run.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/policy_reports.h"
#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {
namespace {

constexpr std::array kTimes{&LearnReport::load_seconds, &LearnReport::learn_seconds, &LearnReport::sync_seconds};

MultiAgentSetup checked(MultiAgentSetup setup) {
  std::vector<std::string> faults = faults_of(setup.ppo, setup.shards);
  if (setup.total_steps < 1) faults.push_back(concat("total_steps is ", setup.total_steps, "; it must be at least 1"));
  if (setup.ppo.completes_episodes())
    faults.emplace_back("episodes of several agents go on in the next rollout so far: leave batch_mode");
  if (setup.ppo.sequences) faults.emplace_back("policies of several agents remember nothing so far: leave sequences");
  if (!sync::is_reproducible(setup.strategy, 2))
    faults.emplace_back(
        "several agents need a strategy whose numbers do not depend on which replica is fast; use "
        "replicated, divided or parameter_server");
  if (!faults.empty()) throw ConfigError(std::move(faults));
  setup.ppo.fragments = Fragments::kUneven;
  return setup;
}

}  // namespace

MultiAgentRun::MultiAgentRun(MultiAgentSetup setup)
    : setup_(checked(std::move(setup))),
      agents_(setup_.make_envs(1)->spec()),
      map_(policy_map(agents_, setup_.policies)),
      spec_(whole_spec(agents_)),
      seats_(map_.size()) {
  results_.policies.resize(map_.size());
  const std::vector<sync::Placement> placements = setup_.ranks.place(setup_.devices, setup_.shards);
  replicas_ = placements.front().replicas;
  shards_ = {placements.front().mine.begin, placements.back().mine.end};
  // Environments and policies are made one after the other: a user's factories need not be thread-safe.
  for (std::size_t policy = 0; policy < map_.size(); ++policy) build_policy(policy, placements);
  for (const sync::Placement& placement : placements) {
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) build_worker(shard, placement.local);
  }
  build_teams(placements);
  watch_ = watch_steps(any_team(), workers_, spec_.id, shards_.begin, setup_.ppo.num_envs / setup_.shards, setup_.ppo);
}

MultiAgentRun::~MultiAgentRun() = default;

void MultiAgentRun::build_policy(std::size_t policy, const std::vector<sync::Placement>& placements) {
  for (const sync::Placement& placement : placements) {
    std::shared_ptr<ActorCritic> module =
        make_mapped_policy(setup_.make_policy, map_[policy], seed_of_policy(setup_.seed, policy));
    module->to(setup_.devices[static_cast<std::size_t>(placement.local)]);
    seats_[policy].modules.push_back(std::move(module));
  }
}

void MultiAgentRun::build_worker(int shard, int local) {
  const int envs = setup_.ppo.num_envs / setup_.shards;
  std::vector<std::shared_ptr<ActorCritic>> policies;
  for (const Seat& seat : seats_) policies.push_back(seat.modules[static_cast<std::size_t>(local)]);
  const MultiAgentRolloutOptions options{.steps = setup_.ppo.rollout_steps,
                                         .gamma = setup_.ppo.gamma,
                                         .gae_lambda = setup_.ppo.gae_lambda,
                                         .time_limit = setup_.ppo.time_limit};
  workers_.push_back(std::make_unique<MultiAgentWorker>(
      setup_.make_envs(envs), policy_seats(map_, policies, setup_.actor, envs, setup_.seed, shard), options,
      shard * envs));
  workers_.back()->reset(setup_.seed);
}

void MultiAgentRun::build_teams(const std::vector<sync::Placement>& placements) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (!map_[p].trained) continue;
    Seat& seat = seats_[p];
    learner::TeamOptions options =
        team_options_of(setup_, setup_.ppo, seed_of_policy(setup_.seed, p), patience_of(setup_.ppo));
    options.threads = threads_of_policy(map_[p].name);
    seat.team = std::make_unique<learner::ReplicaTeam>(
        placements, options,
        [&seat](const sync::Placement& placement) { return seat.modules[static_cast<std::size_t>(placement.local)]; },
        setup_.ranks);
    for (int local = 0; local < seat.team->size(); ++local) {
      seat.ppo.push_back(std::make_unique<Ppo>(seat.team->member(local), *seat.modules[static_cast<std::size_t>(local)],
                                               setup_.ppo, setup_.actor.instruction_set));
    }
    seat.learned.resize(seat.ppo.size());
  }
}

learner::ReplicaTeam& MultiAgentRun::any_team() const {
  return *std::ranges::find_if(seats_, [](const Seat& seat) { return seat.team != nullptr; })->team;
}

std::string MultiAgentRun::gradients_by() const {
  std::vector<GradientsOfPolicy> policies;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (!seats_[p].ppo.empty()) policies.push_back({map_[p].name, seats_[p].ppo.front()->gradients_by()});
  }
  return rl::gradients_by(policies);
}

RunReport MultiAgentRun::update() {
  RunReport report;
  report.sample_seconds = collect();
  gather_results();
  require_decisions();
  const double progress = static_cast<double>(env_steps_) / static_cast<double>(setup_.total_steps);
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (map_[p].trained) learn(p, progress);
  }
  take_slowest(report.sample_seconds);
  ++updates_;
  env_steps_ += setup_.ppo.batch_rows();
  for (std::size_t p = 0; p < map_.size(); ++p) report.policies.push_back(report_of(p));
  report.learning = mean_of(report.policies);
  report_episodes(episodes_, report);
  return report;
}

// On the threads of a team, whichever: one a replica. Returns the seconds of the slowest.
double MultiAgentRun::collect() {
  std::vector<double> seconds(static_cast<std::size_t>(any_team().size()));
  any_team().run([&](learner::Member& member) {
    const Clock::time_point start = Clock::now();
    const sync::Placement& placement = member.replica.placement();
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) worker(shard).collect();
    seconds[static_cast<std::size_t>(placement.local)] = seconds_since(start);
  });
  return std::ranges::max(seconds);
}

// What belongs to the whole run, in the order of the groups, on one thread of every rank.
void MultiAgentRun::gather_results() {
  std::vector<double> mine;
  for (const auto& worker : workers_) append_results(*worker, mine);
  results_.clear();
  for (const std::vector<double>& rank : setup_.ranks.gather(mine)) take_results(rank, results_);
  episodes_.add(results_.episodes);
  for (std::size_t p = 0; p < map_.size(); ++p) seats_[p].episodes.add(results_.policies[p].episodes);
}

// Of each minibatch some shard must have a row.
void MultiAgentRun::require_decisions() const {
  const std::int64_t minibatches = setup_.ppo.pass_minibatches();
  for (std::size_t p = 0; p < map_.size(); ++p) {
    const AgentResults::OfPolicy& its = results_.policies[p];
    if (!map_[p].trained || its.most_decisions >= minibatches) continue;
    throw RunError(concat("policy '", map_[p].name, "' made ", its.decisions, " decisions in update ", updates_ + 1,
                          ", ", its.most_decisions, " at most in an env group, and a pass has ", minibatches,
                          " minibatches, which would be empty; its agents act seldom: raise "
                          "rollout_steps or num_envs, or lower the minibatches"));
  }
}

void MultiAgentRun::learn(std::size_t policy, double progress) {
  Seat& seat = seats_[policy];
  seat.team->run([&](learner::Member& member) {
    const sync::Placement& placement = member.replica.placement();
    std::vector<Fragment*> fragments;
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard)
      fragments.push_back(&worker(shard).fragment(policy));
    const auto local = static_cast<std::size_t>(placement.local);
    seat.learned[local] = seat.ppo[local]->update(fragments, progress, patience_of(setup_.ppo));
  });
}

// Times are those of the slowest replica of all ranks.
void MultiAgentRun::take_slowest(double& sample_seconds) {
  std::vector<double> mine{sample_seconds};
  for (const Seat& seat : seats_) {
    if (!seat.team) continue;
    for (const auto time : kTimes) {
      double most = 0;
      for (const LearnReport& report : seat.learned) most = std::max(most, report.*time);
      mine.push_back(most);
    }
  }
  for (const std::vector<double>& rank : setup_.ranks.gather(mine)) {
    std::size_t next = 0;
    sample_seconds = std::max(sample_seconds, rank[next++]);
    for (Seat& seat : seats_) {
      if (!seat.team) continue;
      for (const auto time : kTimes) {
        double& most = seat.learned.front().*time;
        most = std::max(most, rank[next++]);
      }
    }
  }
}

PolicyReport MultiAgentRun::report_of(std::size_t policy) const {
  const Seat& seat = seats_[policy];
  PolicyReport report{.name = map_[policy].name,
                      .decisions = results_.policies[policy].decisions,
                      .learning = {},
                      .episode_return_mean = seat.episodes.mean_return(),
                      .episode_length_mean = seat.episodes.mean_length(),
                      .episodes = seat.episodes.total()};
  if (seat.team) report.learning = seat.learned.front();
  return report;
}

std::vector<learner::ReplicaTeam::Work> MultiAgentRun::work() const {
  std::vector<learner::ReplicaTeam::Work> all;
  for (const Seat& seat : seats_) {
    if (seat.team) add_work(seat.team->work(), all);
  }
  return all;
}

}  // namespace tandem::rl
