#include "tandem/rl/algo/ppo/ppo_run.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <array>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/rollout/gae.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {
namespace {

constexpr const char* kKlCoef = "kl_coef";  // of the next update, in the part "run"

std::vector<std::string> part_names(int shards) {
  std::vector<std::string> names{"state", "normalizers", "run"};
  for (int shard = 0; shard < shards; ++shard) {
    names.push_back(shard_part(shard));
    names.push_back(group_part(shard));
  }
  return names;
}

// What the slowest of all took counts.
void slower_of(std::span<double* const, 4> times, std::span<const double, 4> others) {
  for (std::size_t i = 0; i < times.size(); ++i) *times[i] = std::max(*times[i], others[i]);
}

PpoSetup checked(PpoSetup setup) {
  const bool complete = setup.ppo.completes_episodes();
  setup.ppo.fragments = setup.has_uneven_rollouts() || complete ? Fragments::kUneven : Fragments::kEven;
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
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return setup;
}

// Of sums over rows, which come first: a rank whose groups all rest has none.
std::optional<RankReport::Learning> learning_of(std::span<const double, 6> sums) {
  const double rows = sums[0];
  if (rows == 0) return std::nullopt;
  return RankReport::Learning{.rows = rows,
                              .policy_loss = sums[1] / rows,
                              .value_loss = sums[2] / rows,
                              .entropy = sums[3] / rows,
                              .approx_kl = sums[4] / rows,
                              .clip_fraction = sums[5] / rows};
}

}  // namespace

PpoRun::PpoRun(PpoSetup setup)
    : setup_(checked(std::move(setup))),
      spec_(setup_.make_envs(1)->spec()),
      normalizers_(spec_, setup_.normalizer),
      policies_(setup_.devices.size()),
      group_moments_(spec_, setup_.normalizer) {
  if (spec_.agents != 1) {
    throw ConfigError(concat(spec_.id, " has ", spec_.agents, " agents in an environment; PPO trains one"));
  }
  // Environments and policies are made one after the other: a user's factories need not be thread-safe.
  for (std::size_t local = 0; local < policies_.size(); ++local) {
    at::Generator generator = at::detail::createCPUGenerator(derive_seed(setup_.seed, SeedPurpose::kParameters, 0));
    policies_[local] = setup_.make_policy(spec_, generator);
    policies_[local]->to(setup_.devices[local]);
  }
  require_sequences_for(policy(), setup_.ppo.sequences.has_value());
  const std::vector<sync::Placement> placements = setup_.ranks.place(setup_.devices, setup_.shards);
  replicas_ = placements.front().replicas;
  shards_ = {placements.front().mine.begin, placements.back().mine.end};
  for (const sync::Placement& placement : placements) {
    ActorCritic& policy = *policies_[static_cast<std::size_t>(placement.local)];
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) build_worker(shard, policy);
  }
  build_rollouts(placements);
  team_ = std::make_unique<learner::ReplicaTeam>(
      placements, team_options_of(setup_, setup_.ppo, setup_.seed, patience_of(setup_.ppo)),
      [this](const sync::Placement& placement) { return policies_[static_cast<std::size_t>(placement.local)]; },
      setup_.ranks);
  watch_ = watch_steps(*team_, workers_, spec_.id, shards_.begin, setup_.ppo.num_envs / setup_.shards, setup_.ppo);
  for (int local = 0; local < team_->size(); ++local) {
    ActorCritic& policy = *policies_[static_cast<std::size_t>(local)];
    ppo_.push_back(std::make_unique<Ppo>(team_->member(local), policy, setup_.ppo, setup_.actor.instruction_set));
  }
}

PpoRun::~PpoRun() = default;

void PpoRun::build_worker(int shard, ActorCritic& policy) {
  const int envs = setup_.ppo.num_envs / setup_.shards;
  const int steps = setup_.ppo.rollout_steps;
  const bool complete = setup_.ppo.completes_episodes();
  const RolloutOptions options{.steps = complete ? CompleteEpisodes::most_steps(spec_, steps) : steps,
                               .gamma = setup_.ppo.gamma,
                               .time_limit = setup_.ppo.time_limit,
                               .family = policy.family(),
                               .sequences = setup_.ppo.sequences.value_or(SequenceOptions{}),
                               .normalizer = setup_.normalizer};
  std::unique_ptr<EnvGroup> group = setup_.make_envs(envs);
  std::unique_ptr<Actor> actor = make_actor(policy, setup_.actor, group->size() * spec_.agents, setup_.seed, shard);
  workers_.push_back(std::make_unique<RolloutWorker>(std::move(group), std::move(actor), options, shard * envs));
  workers_.back()->reset(setup_.seed);
  if (complete) complete_.push_back(std::make_unique<CompleteEpisodes>(*workers_.back(), steps, setup_.seed));
}

// By group of the run: its place among those that make steps; nothing when it rests.
std::vector<std::optional<int>> PpoRun::find_working(const std::vector<sync::Placement>& placements) const {
  std::vector<double> mine;
  for (const sync::Placement& placement : placements)
    mine.insert(mine.end(), {static_cast<double>(placement.mine.begin), static_cast<double>(placement.mine.end)});
  std::vector<Range> replicas;
  for (const std::vector<double>& its : setup_.ranks.gather(mine)) {
    for (std::size_t i = 0; i < its.size(); i += 2)
      replicas.push_back({static_cast<int>(its[i]), static_cast<int>(its[i + 1])});
  }
  const int present = setup_.ranks.size();
  const bool rests = setup_.while_missing == WhileMissing::kShareRests;
  return working_groups(replicas, present, rests ? setup_.ranks.size_of_run() : present);
}

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
    std::vector<Fragment*>& fragments = fragments_.emplace_back();
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) {
      CompleteEpisodes* complete =
          complete_.empty() ? nullptr : complete_[static_cast<std::size_t>(shard - shards_.begin)].get();
      groups.push_back(
          {.worker = &worker(shard), .complete = complete, .unit = units[static_cast<std::size_t>(shard)]});
      fragments.push_back(complete != nullptr ? &complete->fragment() : &worker(shard).fragment());
    }
    rollouts_.push_back(std::make_unique<GroupRollout>(stragglers, std::move(groups), placement.mine.begin,
                                                       setup_.ppo.rollout_steps, board));
  }
}

std::string PpoRun::why_numbers_differ() const {
  std::string why;
  if (resting_ > 0) why = concat(resting_, " of ", setup_.shards, " env groups make no steps while ranks are missing");
  if (setup_.stragglers.may_end_early() && setup_.stragglers.recorded.empty()) {
    if (!why.empty()) why += ", and ";
    why += "which rollouts end early, and where, depends on how long steps take";
  }
  if (!why.empty()) return why + "; the run's record says it";
  if (sync::is_reproducible(setup_.strategy, replicas())) return "";
  return "which gradients are applied, and when, depends on the order in which they come";
}

Phase PpoRun::phase() const {
  Phase first = Phase::kWait;
  for (const auto& ppo : ppo_) first = std::min(first, ppo->phase());
  return first;
}

RunReport PpoRun::update() {
  replica_reports_.assign(ppo_.size(), RunReport{});
  team_->run([&](learner::Member& member) {
    collect_and_learn(member, replica_reports_[static_cast<std::size_t>(member.replica.placement().local)]);
  });
  return finish_update(replica_reports_);
}

void PpoRun::collect_and_learn(learner::Member& member, RunReport& report) {
  const Clock::time_point start = Clock::now();
  const auto local = static_cast<std::size_t>(member.replica.placement().local);
  ppo_[local]->at(Phase::kSample);
  rollouts_[local]->collect(updates_, normalizers_);
  for (Fragment* fragment : fragments_[local]) compute_gae(*fragment, setup_.ppo.gamma, setup_.ppo.gae_lambda);
  report.sample_seconds = seconds_since(start);
  const double progress = static_cast<double>(env_steps_) / static_cast<double>(setup_.total_steps);
  const Clock::time_point learning = Clock::now();
  report.learning = ppo_[local]->update(fragments_[local], progress, patience_of(setup_.ppo));
  report.learning.all_seconds = seconds_since(learning);
}

// What belongs to the whole run, after all replicas are done: in the order of the groups, on one thread of every rank.
RunReport PpoRun::finish_update(const std::vector<RunReport>& replicas) {
  RunReport report = replicas.front();
  std::array<double*, 4> times{&report.sample_seconds, &report.learning.load_seconds, &report.learning.learn_seconds,
                               &report.learning.sync_seconds};
  for (const RunReport& other : replicas) {
    slower_of(times, std::array{other.sample_seconds, other.learning.load_seconds, other.learning.learn_seconds,
                                other.learning.sync_seconds});
  }
  std::vector<double>& mine = results_;
  mine.clear();
  for (const double* seconds : times) mine.push_back(*seconds);
  mine.push_back(static_cast<double>(workers_.size()));
  // Of those that waited least for others' rollouts: what is longer is that wait.
  double learning = replicas.front().learning.all_seconds;
  for (const RunReport& other : replicas) learning = std::min(learning, other.learning.all_seconds);
  mine.push_back(learning);
  double learn = 0, wait = replicas.front().learning.wait_seconds;
  for (const RunReport& its : replicas) {
    learn = std::max(learn, its.learning.all_seconds - its.learning.wait_seconds);
    wait = std::min(wait, its.learning.wait_seconds);
  }
  PpoSums learned;
  for (const auto& ppo : ppo_) {
    for (const PpoSums& of_shard : ppo->sums()) learned.add(of_shard);
  }
  mine.insert(mine.end(), {learn, wait, learned.rows, learned.policy_loss, learned.value_loss, learned.entropy,
                           learned.approx_kl, learned.clipped});
  for (const auto& rollout : rollouts_) {
    for (const auto& [steps, rows, seconds] : rollout->windows())
      mine.insert(mine.end(), {static_cast<double>(steps), static_cast<double>(rows), seconds});
  }
  for (const auto& worker : workers_) append_results(*worker, mine);

  new_episodes_.clear();
  groups_.clear();
  setup_.ranks.gather(mine, all_results_);
  report.ranks.reserve(all_results_.size());
  for (const std::vector<double>& numbers : all_results_) {
    auto all = std::span(numbers);
    slower_of(times, all.first<4>());
    const auto its_groups = static_cast<std::size_t>(all[4]);
    learning = std::min(learning, all[5]);
    RankReport& rank = report.ranks.emplace_back();
    rank = {.sample_seconds = all[0], .learn_seconds = all[6], .wait_seconds = all[7], .env_steps = 0};
    rank.learning = learning_of(all.subspan<8, 6>());
    all = all.subspan(14);
    for (std::size_t i = 0; i < its_groups; ++i) {
      const auto its = all.subspan(3 * i, 3);
      groups_.push_back({.steps = static_cast<int>(its[0]), .rows = static_cast<int>(its[1]), .seconds = its[2]});
      rank.env_steps += groups_.back().rows;
    }
    take_results(all.subspan(3 * its_groups), group_moments_, normalizers_, new_episodes_);
  }
  for (const auto& rollout : rollouts_) rollout->learned(learning);
  episodes_.add(new_episodes_);
  normalizers_.finish_merge();
  ++updates_;
  account_rollouts(report);
  report_episodes(episodes_, report);
  report.gradients = team_->take_gradients();
  return report;
}

void PpoRun::account_rollouts(RunReport& report) {
  const int envs = setup_.ppo.num_envs / setup_.shards;
  RolloutReport rollouts;
  double took = 0, would_have_taken = 0;
  for (const auto& [steps, rows, seconds] : groups_) {
    env_steps_ += rows;
    if (setup_.has_uneven_rollouts()) rollouts.steps.push_back(steps);
    rollouts.rows_cut += std::int64_t{setup_.ppo.rollout_steps - steps} * envs;
    if (steps == 0) continue;
    took = std::max(took, seconds);
    would_have_taken = std::max(would_have_taken, seconds * setup_.ppo.rollout_steps / steps);
  }
  if (setup_.stragglers.recorded.empty()) rollouts.saved_seconds = would_have_taken - took;  // a replay saves nothing
  if (setup_.has_uneven_rollouts()) report.rollouts = std::move(rollouts);
}

std::string PpoRun::params_sha256() { return params_sha256_of(policy()); }

std::string PpoRun::state_sha256() { return state_sha256_of(*team_, normalizers_); }

model::NamedTensors PpoRun::run_part() const {
  const auto passes = static_cast<std::int64_t>(team_->member(0).learner.passes());
  model::NamedTensors part = run_part_of({updates_, env_steps_, passes, episodes_.total()}, episodes_);
  if (setup_.ppo.kl_coef_target) part.emplace_back(kKlCoef, at::tensor({ppo_.front()->kl_coef()}, at::kDouble));
  return part;
}

learner::StateParts PpoRun::save() {
  learner::StateParts parts;
  model::NamedTensors state = team_->state();  // of all ranks together
  if (setup_.ranks.leads()) {
    parts.emplace_back("state", std::move(state));
    parts.emplace_back("normalizers", normalizers_.state());
    parts.emplace_back("run", run_part());
  }
  for (int local = 0; local < team_->size(); ++local) {
    sync::Replica& replica = team_->member(local).replica;
    const Range mine = replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) {
      parts.emplace_back(shard_part(shard), stream_of(replica.generator(shard)));
      parts.emplace_back(group_part(shard), model::NamedTensors{{"state", tensor_of(worker(shard).save())}});
    }
  }
  return gather_parts(setup_.ranks, std::move(parts));
}

void PpoRun::load_run_part(const model::NamedTensors& run) {
  const std::vector<std::int64_t> counters = counters_of(run, 4);
  updates_ = counters[0];
  env_steps_ = counters[1];
  team_->set_passes(static_cast<std::uint64_t>(counters[2]));
  restore_episodes(run, counters[3], episodes_);
  if (!setup_.ppo.kl_coef_target) return;
  const auto kl_coef = find(run, kKlCoef, "run").item<double>();
  for (const auto& ppo : ppo_) ppo->set_kl_coef(kl_coef);
}

RolloutWorker::Resumed PpoRun::load(const learner::ReadPart& read_part) {
  const learner::StateParts parts = parts_from_leader(setup_.ranks, part_names(setup_.shards), read_part);
  const auto part = [&parts](const std::string& name) { return learner::part_of(parts, name); };
  normalizers_.load(part("normalizers"));
  load_run_part(part("run"));
  team_->load_state(part("state"));
  // New episodes, where they must be, are others than those of the run's beginning.
  const std::uint64_t seed =
      derive_seed(setup_.seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(updates_) << 32);
  double inexact = 0;
  for (int local = 0; local < team_->size(); ++local) {
    sync::Replica& replica = team_->member(local).replica;
    const Range mine = replica.placement().mine;
    for (int shard = mine.begin; shard < mine.end; ++shard) {
      const std::string group = group_part(shard);
      load_stream(part(shard_part(shard)), replica.generator(shard), shard);
      const at::Tensor bytes = find(part(group), "state", group).contiguous();
      const bool exact = worker(shard).load(bytes_of(bytes), seed) == RolloutWorker::Resumed::kExactly;
      if (!exact && !setup_.ppo.completes_episodes()) inexact = 1;  // whose updates begin new episodes in any case
    }
  }
  for (const std::vector<double>& rank : setup_.ranks.gather({inexact})) inexact = std::max(inexact, rank.front());
  return inexact > 0 ? RolloutWorker::Resumed::kWithNewEpisodes : RolloutWorker::Resumed::kExactly;
}

}  // namespace tandem::rl
