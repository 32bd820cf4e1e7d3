#include "tandem/rl/algo/multi_agent_run.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/policy/recurrent.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {
namespace {

constexpr std::size_t kShownName =
    12;  // of a policy: threads have 15 characters, and the last are the replica's number
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

// What the policies learned on average, and how long all of it took.
LearnReport mean_of(const std::vector<PolicyReport>& policies) {
  constexpr std::array kMeans{&LearnReport::policy_loss,        &LearnReport::value_loss,    &LearnReport::entropy,
                              &LearnReport::approx_kl,          &LearnReport::clip_fraction, &LearnReport::grad_norm,
                              &LearnReport::explained_variance, &LearnReport::learning_rate, &LearnReport::clip_range,
                              &LearnReport::entropy_coef,       &LearnReport::kl_coef};
  LearnReport mean;
  double trained = 0;
  for (const PolicyReport& policy : policies) {
    if (!policy.learning) continue;
    ++trained;
    mean.minibatches += policy.learning->minibatches;
    for (const auto field : kMeans) mean.*field += *policy.learning.*field;
    for (const auto field : kTimes) mean.*field += *policy.learning.*field;
  }
  for (const auto field : kMeans) mean.*field /= trained;
  return mean;
}

}  // namespace

MultiAgentRun::MultiAgentRun(MultiAgentSetup setup)
    : setup_(checked(std::move(setup))),
      agents_(setup_.make_envs(1)->spec()),
      map_(policy_map(agents_, setup_.policies)),
      spec_(whole_spec(agents_)),
      seats_(map_.size()) {
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

std::uint64_t MultiAgentRun::seed_of(std::size_t policy) const {
  return derive_seed(setup_.seed, SeedPurpose::kPolicy, policy);
}

void MultiAgentRun::build_policy(std::size_t policy, const std::vector<sync::Placement>& placements) {
  for (const sync::Placement& placement : placements) {
    at::Generator generator = at::detail::createCPUGenerator(derive_seed(seed_of(policy), SeedPurpose::kParameters, 0));
    std::shared_ptr<ActorCritic> module = setup_.make_policy(map_[policy], generator);
    if (dynamic_cast<const RecurrentActorCritic*>(module.get()) != nullptr)
      throw ConfigError(concat("policy '", map_[policy].name, "' remembers; those of several agents do not so far"));
    module->to(setup_.devices[static_cast<std::size_t>(placement.local)]);
    if (!map_[policy].trained) module->eval();
    seats_[policy].modules.push_back(std::move(module));
  }
}

void MultiAgentRun::build_worker(int shard, int local) {
  const int envs = setup_.ppo.num_envs / setup_.shards;
  std::vector<PolicySeat> seats;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    ActorCritic& module = *seats_[p].modules[static_cast<std::size_t>(local)];
    const auto rows = static_cast<std::int64_t>(map_[p].agents.size()) * envs;
    seats.push_back({.agents = map_[p].agents,
                     .spec = map_[p].spec,
                     .family = module.family(),
                     .actor = make_actor(module, setup_.actor, rows, seed_of(p), shard),
                     .learns = map_[p].trained});
  }
  const MultiAgentRolloutOptions options{.steps = setup_.ppo.rollout_steps,
                                         .gamma = setup_.ppo.gamma,
                                         .gae_lambda = setup_.ppo.gae_lambda,
                                         .time_limit = setup_.ppo.time_limit};
  workers_.push_back(
      std::make_unique<MultiAgentWorker>(setup_.make_envs(envs), std::move(seats), options, shard * envs));
  workers_.back()->reset(setup_.seed);
}

void MultiAgentRun::build_teams(const std::vector<sync::Placement>& placements) {
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (!map_[p].trained) continue;
    Seat& seat = seats_[p];
    learner::TeamOptions options = team_options_of(setup_, setup_.ppo, seed_of(p), patience_of(setup_.ppo));
    options.threads = map_[p].name.substr(0, kShownName);
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
  std::string text;
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (seats_[p].ppo.empty()) continue;
    const std::string its = seats_[p].ppo.front()->gradients_by();
    if (text.empty()) text = its;
    if (its != text) text += concat("; of policy ", map_[p].name, ": ", its);
  }
  return text;
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
  for (const auto& worker : workers_) {
    append_episodes(worker->take_episodes(), mine);
    for (std::size_t p = 0; p < map_.size(); ++p) {
      append_episodes(worker->take_episodes(p), mine);
      mine.push_back(map_[p].trained ? worker->fragment(p).steps : 0);
    }
  }
  for (Seat& seat : seats_) seat.decisions = seat.most_decisions = 0;
  for (const std::vector<double>& rank : setup_.ranks.gather(mine)) take_results(rank);
  episodes_.add(new_episodes_);
  new_episodes_.clear();
  for (Seat& seat : seats_) {
    seat.episodes.add(seat.new_episodes);
    seat.new_episodes.clear();
  }
}

void MultiAgentRun::take_results(std::span<const double> numbers) {
  while (!numbers.empty()) {
    take_episodes(numbers, new_episodes_);
    for (Seat& seat : seats_) {
      take_episodes(numbers, seat.new_episodes);
      const auto decisions = static_cast<std::int64_t>(numbers.front());
      numbers = numbers.subspan(1);
      seat.decisions += decisions;
      seat.most_decisions = std::max(seat.most_decisions, decisions);
    }
  }
}

// Of each minibatch some shard must have a row.
void MultiAgentRun::require_decisions() const {
  const std::int64_t minibatches = setup_.ppo.pass_minibatches();
  for (std::size_t p = 0; p < map_.size(); ++p) {
    if (!map_[p].trained || seats_[p].most_decisions >= minibatches) continue;
    throw RunError(concat("policy '", map_[p].name, "' made ", seats_[p].decisions, " decisions in update ",
                          updates_ + 1, ", ", seats_[p].most_decisions, " at most in an env group, and a pass has ",
                          minibatches,
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
                      .decisions = seat.decisions,
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
    if (!seat.team) continue;
    const std::vector<learner::ReplicaTeam::Work> its = seat.team->work();
    all.resize(its.size());
    for (std::size_t i = 0; i < its.size(); ++i) {
      all[i].rows += its[i].rows;
      all[i].cpu_seconds += its[i].cpu_seconds;
      all[i].staleness.offered += its[i].staleness.offered;
      all[i].staleness.wait_seconds += its[i].staleness.wait_seconds;
    }
  }
  return all;
}

}  // namespace tandem::rl
