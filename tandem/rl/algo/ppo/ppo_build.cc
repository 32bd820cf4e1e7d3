// How a PpoRun is built: what is refused, then policies, environments, rollouts and learners, in the same order on all
// ranks, which meet in it.
#include <torch/nn/module.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/rollout/complete_episodes.h"

namespace tandem::rl {
namespace {

// All that one agent can have and several cannot so far.
void add_faults_of_several_agents(const PpoSetup& setup, std::vector<std::string>& faults) {
  const auto refuse = [&faults](bool wrong, const char* why) {
    if (wrong) faults.emplace_back(why);
  };
  refuse(setup.ppo.completes_episodes(),
         "episodes of several agents go on in the next rollout so far: leave batch_mode");
  refuse(!sync::is_reproducible(setup.strategy, 2),
         "several agents need a strategy whose numbers do not depend on which replica is fast; use replicated, divided "
         "or parameter_server");
}

// Collects all faults before it throws, so that a user mends them at once.
PpoSetup checked(PpoSetup setup) {
  const bool complete = setup.ppo.completes_episodes();
  setup.ppo.fragments = setup.has_uneven_rollouts() || complete || setup.agents ? Fragments::kUneven : Fragments::kEven;
  if (setup.ppo.kernel == LossKernel::kOff) setup.actor.memory = ActingWithMemory::kByOperations;
  std::vector<std::string> faults = faults_of(setup.ppo, setup.shards);
  if (faults.empty()) {  // a record is judged by counts that fit
    const std::string fault = record_fault(setup.ppo, setup.shards, setup.stragglers.recorded);
    if (!fault.empty()) faults.push_back("stragglers.recorded: " + fault);
  }
  if (const double share = setup.stragglers.options.sync_frac; !(share > 0))
    faults.push_back(concat("stragglers.sync_frac is ", share, "; it must be above 0"));
  if (complete && setup.has_uneven_rollouts())
    faults.emplace_back("complete_episodes: no rollout may end early, none follow a record, and no group rest");
  if (setup.total_steps < 1) faults.push_back(concat("total_steps is ", setup.total_steps, "; it must be at least 1"));
  if (setup.agents) add_faults_of_several_agents(setup, faults);
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return setup;
}

}  // namespace

// Built in this order: policies, env groups with actors on them, rollouts, learners, and last the watch, which the
// teams ask.
PpoRun::PpoRun(PpoSetup setup)
    : setup_(checked(std::move(setup))),
      map_(map_of(setup_, spec_)),
      normalizers_(normalizers_of(setup_, map_)),
      seats_(map_.size()),
      sample_seconds_(setup_.devices.size()),
      group_moments_(moments_of(setup_, map_)) {
  results_.metrics = spec_.metrics.size();
  if (is_several()) results_.policies.resize(map_.size());
  build_policies();
  const std::vector<sync::Placement> placements = setup_.ranks.place(setup_.devices, setup_.shards);
  replicas_ = placements.front().replicas;
  shards_ = {placements.front().mine.begin, placements.back().mine.end};
  for (const sync::Placement& placement : placements) {
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) {
      workers_.push_back(make_worker(shard, placement.local));
      workers_.back()->reset(setup_.seed);
    }
  }
  build_rollouts(placements);
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    if (map_[seat].trained) build_learner(seat, placements);
  }
  build_watch();
}

// Environments and policies are made one after the other: a user's factories need not be thread-safe.
void PpoRun::build_policies() {
  for (std::size_t s = 0; s < seats_.size(); ++s) {
    for (const c10::Device& device : setup_.devices)
      seats_[s].modules.emplace_back(build_policy(setup_, map_, s))->to(device);
  }
  const auto is_recurrent = [](const Seat& seat) { return remembers(*seat.modules.front()); };
  require_sequences_for(std::ranges::any_of(seats_, is_recurrent), setup_.ppo.sequences.has_value());
}

// The random streams of a group are derived from the run's seed and the group's number, never from a replica's: so the
// group samples the same wherever it runs.
std::unique_ptr<GroupWorker> PpoRun::make_worker(int shard, int local) {
  std::vector<std::shared_ptr<ActorCritic>> policies;
  for (const Seat& seat : seats_) policies.push_back(seat.modules[static_cast<std::size_t>(local)]);
  ActorCritic& policy = *policies.front();
  const int envs = setup_.ppo.num_envs / setup_.shards, first = shard * envs;
  const int steps = setup_.ppo.rollout_steps;
  const bool complete = setup_.ppo.completes_episodes();
  const RolloutOptions options{.steps = complete ? CompleteEpisodes::most_steps(spec_, steps) : steps,
                               .gamma = setup_.ppo.gamma,
                               .gae_lambda = setup_.ppo.gae_lambda,
                               .time_limit = setup_.ppo.time_limit,
                               .sequences = setup_.ppo.sequences.value_or(SequenceOptions{}),
                               .normalizer = setup_.normalizer,
                               .remarks = shard == 0 ? setup_.remarks : nullptr};  // others see the like
  if (is_several()) {
    return std::make_unique<MultiAgentWorker>(setup_.agents->make_envs(envs),
                                              policy_seats(setup_, map_, policies, envs, shard), options, first);
  }
  std::unique_ptr<EnvGroup> group = setup_.make_envs(envs);
  std::unique_ptr<Actor> actor = make_actor(policy, setup_.actor, envs, setup_.seed, shard);
  if (complete) {
    return std::make_unique<CompleteEpisodes>(std::move(group), std::move(actor), options, first, steps, setup_.seed);
  }
  return std::make_unique<RolloutWorker>(std::move(group), std::move(actor), options, first);
}

// Returns, for each group of the run, its place among the groups that make steps; nothing when the group rests.
std::vector<std::optional<int>> PpoRun::find_working(const std::vector<sync::Placement>& placements) const {
  std::vector<double> mine;
  for (const sync::Placement& placement : placements) learner::append_struct(placement.mine, mine);
  std::vector<Range> replicas;
  for (const std::vector<double>& its : setup_.ranks.gather(mine)) {
    for (std::span<const double> numbers = its; !numbers.empty();)
      replicas.push_back(learner::take_struct<Range>(numbers));
  }
  const int present = setup_.ranks.size();
  const bool rests = setup_.while_missing == WhileMissing::kShareRests;
  return working_groups(replicas, present, rests ? setup_.ranks.size_of_run() : present);
}

// A board is opened only where a rule needs one: all ranks ask for it, or none does.
void PpoRun::build_rollouts(const std::vector<sync::Placement>& placements) {
  const StragglerSetup& stragglers = setup_.stragglers;
  const std::vector<std::optional<int>> units = find_working(placements);
  const auto before = [&units](int group) {  // those that work and come before it
    return static_cast<int>(
        std::count_if(units.begin(), units.begin() + group, [](auto unit) { return unit.has_value(); }));
  };
  resting_ = setup_.shards - before(setup_.shards);
  std::optional<ProgressBoard> board;
  if (stragglers.may_end_early() && stragglers.recorded.empty())
    board = setup_.ranks.open_board(before(setup_.shards), {before(shards_.begin), before(shards_.end)});
  for (const sync::Placement& placement : placements) {
    std::vector<RolloutGroup> groups;
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) {
      const auto i = static_cast<std::size_t>(shard - shards_.begin);
      groups.push_back({.worker = workers_[i].get(), .unit = units[static_cast<std::size_t>(shard)]});
    }
    rollouts_.push_back(std::make_unique<GroupRollout>(stragglers, std::move(groups), placement.mine.begin,
                                                       setup_.ppo.rollout_steps, board));
  }
}

// The team begins with the parameters that the modules have, which are the same on all replicas.
void PpoRun::build_learner(std::size_t index, const std::vector<sync::Placement>& placements) {
  Seat& seat = seats_[index];
  learner::TeamOptions options = team_options_of(setup_, setup_.ppo, seed_of(setup_, index), patience());
  if (is_several()) options.threads = threads_of_policy(map_[index].name);
  seat.team = std::make_unique<learner::ReplicaTeam>(
      placements, options,
      [&seat](const sync::Placement& placement) { return seat.modules[static_cast<std::size_t>(placement.local)]; },
      setup_.ranks);
  PpoOptions ppo = setup_.ppo;
  if (!remembers(policy(index))) ppo.sequences.reset();  // those of another policy
  for (const sync::Placement& placement : placements) {
    ActorCritic& policy = *seat.modules[static_cast<std::size_t>(placement.local)];
    seat.ppo.push_back(
        std::make_unique<Ppo>(seat.team->member(placement.local), policy, ppo, setup_.actor.instruction_set));
    std::vector<Fragment*>& fragments = seat.fragments.emplace_back();
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard)
      fragments.push_back(&workers_[static_cast<std::size_t>(shard - shards_.begin)]->fragment(index));
  }
  seat.learned.resize(seat.ppo.size());
}

void PpoRun::build_watch() {
  watch_ = watch_groups(any_team(), workers_, spec_.id, shards_.begin, setup_.ppo.num_envs / setup_.shards,
                        {.key = "ppo.stall_timeout", .limit = std::chrono::seconds(setup_.ppo.stall_timeout)});
}

}  // namespace tandem::rl
