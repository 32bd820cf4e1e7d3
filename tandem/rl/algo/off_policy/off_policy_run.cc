#include "tandem/rl/algo/off_policy/off_policy_run.h"

#include <limits>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/name_columns.h"
#include "tandem/rl/algo/option_faults.h"

namespace tandem::rl {
namespace {

// The stream of what all shards choose alike, beside those of the shards' replay parts, whose numbers are their own.
constexpr std::uint64_t kOfAllShards = std::numeric_limits<std::uint64_t>::max();
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Counts that others are divided by come first; where they are right, all else is told at once.
OffPolicySetup checked_off_policy(OffPolicySetup setup) {
  const OffPolicyOptions& options = setup.off_policy;
  OptionFaults faults;
  faults.require(!setup.agents, "environments with several agents are not learned from a replay so far");
  faults.require(!setup.devices.empty(), "devices is empty; there must be at least one");
  faults.at_least("shards", setup.shards, 1);
  faults.at_least("total_steps", setup.total_steps, 1);
  faults.at_least("num_envs", options.num_envs, 1);
  faults.at_least("rollout_steps", options.rollout_steps, 1);
  faults.at_least("train_every", options.train_every, 1);
  faults.at_least("gradient_steps", options.gradient_steps, 1);
  faults.at_least("batch_size", options.batch_size, 1);
  faults.at_least("n_step", options.n_step, 1);
  faults.at_least("target_every", options.target_every, 1);
  if (faults.any()) throw ConfigError(faults.take());
  for (const CountFault& fault : count_faults(options, setup.shards, static_cast<int>(setup.devices.size())))
    faults.require(false, concat(fault.key, " is ", fault.value, ": ", fault.problem));
  faults.in_range("gamma", options.gamma, 0, 1);
  faults.positive("tau", options.tau);
  faults.in_range("tau", options.tau, 0, 1);
  faults.positive("adam_eps", options.adam_eps);
  faults.positive("max_grad_norm", options.max_grad_norm);
  faults.positive("learning_rate", setup.learning_rate);
  faults.in_range("priority_alpha", options.priority_alpha, 0, 1);
  faults.in_range("priority_beta", options.priority_beta, 0, 1);
  faults.at_least("stall_timeout", options.stall_timeout, 1);
  if (faults.any()) throw ConfigError(faults.take());
  return setup;
}

// It follows from the turn's number in the run, so that a resumed run needs nothing to go on with.
std::uint64_t seed_of_turn(std::uint64_t run_seed, std::int64_t turn) {
  const std::uint64_t all = derive_seed(run_seed, SeedPurpose::kReplay, kOfAllShards);
  return Philox(all, static_cast<std::uint64_t>(turn)).next_u64();
}

// Counts that came from many environments, in one sum.
void add_stats(const ReplayStats& its, ReplayStats& all) {
  all.rows += its.rows;
  all.inserted += its.inserted;
  all.sampled += its.sampled;
  all.mean_age += its.mean_age;
  all.priority_mean += its.priority_mean;
  all.priority_max = std::max(all.priority_max, its.priority_max);
}

}  // namespace

// A rank tells these numbers of an update, besides the results and sums of its groups.
struct OffPolicyRun::RankNumbers {
  double sample_seconds = 0, learn_seconds = 0;                   // of its slowest replica
  double wait_seconds = std::numeric_limits<double>::infinity();  // of the replica that waited least
  double env_steps = 0;
  double shards = 0;
  double grad_norm = 0, turns = 0;  // those of every replica
};

// The team comes before the workers, whose explorers read the parameters where it has put them.
OffPolicyRun::OffPolicyRun(OffPolicySetup setup)
    : setup_(checked_off_policy(std::move(setup))),
      map_(map_of(setup_, spec_)),
      normalizers_(normalizers_of(setup_, map_)),
      group_moments_(moments_of(setup_, map_)) {
  results_.metrics = spec_.metrics.size();
  for (const c10::Device& device : setup_.devices) modules_.emplace_back(build_policy(setup_, map_, 0))->to(device);
  if (remembers(policy())) throw ConfigError("policies that remember are not learned from a replay so far");
  const std::vector<sync::Placement> placements = setup_.ranks.place(setup_.devices, setup_.shards);
  replicas_ = placements.front().replicas;
  shards_ = {placements.front().mine.begin, placements.back().mine.end};
  build_team(placements);
  build_workers(placements);
  build_watch();
}

// The team begins with the parameters that the modules have, which are the same on all replicas.
void OffPolicyRun::build_team(const std::vector<sync::Placement>& placements) {
  learner::TeamOptions options{
      .run_seed = setup_.seed,
      .rng = setup_.rng,
      .strategy = sync::with_mean(setup_.strategy, {.max_grad_norm = setup_.off_policy.max_grad_norm,
                                                    .divisor = sync::Divisor::kTotal,
                                                    .check = setup_.gradient_check}),
      .cuda_kernels = setup_.cuda_kernels,
      .patience = patience()};
  setup_.set_optimizers(options);
  team_ = std::make_unique<learner::ReplicaTeam>(
      placements, options,
      [this](const sync::Placement& placement) { return modules_[static_cast<std::size_t>(placement.local)]; },
      setup_.ranks);
  for (const sync::Placement& placement : placements) {
    agents_.push_back(
        setup_.make_agent(team_->member(placement.local), *modules_[static_cast<std::size_t>(placement.local)]));
    team_->member(placement.local)
        .learner.name_batch({.row = {}, .column = [this](const std::string& name, std::size_t nth) {
                               return name_column(spec_, name, nth);
                             }});
  }
}

// The random streams of a group are derived from the run's seed and the group's number, never from a replica's: so the
// group samples and draws the same wherever it runs.
void OffPolicyRun::build_workers(const std::vector<sync::Placement>& placements) {
  const OffPolicyOptions& options = setup_.off_policy;
  const int envs = options.num_envs / setup_.shards;
  const std::int64_t rows = options.batch_size / setup_.shards;
  ExperienceOptions experience{
      .replay = {.rows = options.replay_size / setup_.shards, .n_step = options.n_step, .gamma = options.gamma},
      .frame_stacks = setup_.frame_stacks,
      .hindsight = options.hindsight,
      .hindsight_goals = options.hindsight_goals,
      .normalizer = setup_.normalizer,
      .gamma = options.gamma};
  if (options.replay_folder)
    experience.replay.memory = {.place = ReplayMemory::Place::kNamelessFile, .path = *options.replay_folder};
  if (options.priority_alpha > 0) experience.replay.priorities = PriorityOptions{.alpha = options.priority_alpha};
  for (const sync::Placement& placement : placements) {
    Replica& replica = at_work_.emplace_back();
    OffPolicyAgent& agent = *agents_[static_cast<std::size_t>(placement.local)];
    for (int shard = placement.mine.begin; shard < placement.mine.end; ++shard) {
      experience.remarks = shard == 0 ? setup_.remarks : nullptr;  // others see the like
      workers_.push_back(std::make_unique<ExperienceWorker>(setup_.make_envs(envs),
                                                            agent.make_explorer(setup_.actor, envs, setup_.seed, shard),
                                                            experience, setup_.seed, shard, shard * envs));
      workers_.back()->reset(setup_.seed);
      replica.workers.push_back(workers_.back().get());
      replica.rows.push_back(make_transitions(spec_, rows, agent.noises()));
      take_columns(replica.rows.back(), replica.batches.emplace_back());
    }
    replica.sums.resize(replica.workers.size());
    if (options.priority_alpha > 0) replica.errors.resize(replica.workers.size());
    if (options.sampling == Sampling::kBeside) {
      const int threads = 2 * static_cast<int>(placements.size());
      replica.side = std::make_unique<ThreadTeam>(concat("envs ", placement.mine.begin), spin_budget_for(threads));
    }
  }
}

void OffPolicyRun::build_watch() {
  const OffPolicyOptions& options = setup_.off_policy;
  watch_ = watch_groups(*team_, workers_, spec_.id, shards_.begin, options.num_envs / setup_.shards,
                        {.key = "stall_timeout", .limit = std::chrono::seconds(options.stall_timeout)});
}

std::string OffPolicyRun::why_numbers_differ() const {
  if (sync::is_reproducible(setup_.strategy, replicas())) return "";
  return "which gradients are applied, and when, depends on the order in which they come";
}

RunReport OffPolicyRun::update() {
  team_->run([this](learner::Member& member) {
    run_replica(at_work_[static_cast<std::size_t>(member.replica.placement().local)], member);
  });
  return finish_update();
}

// All replicas take the same turns, since these follow from counts that are the same for all.
void OffPolicyRun::run_replica(Replica& replica, learner::Member& member) {
  const OffPolicyOptions& options = setup_.off_policy;
  OffPolicyAgent& agent = *agents_[static_cast<std::size_t>(member.replica.placement().local)];
  replica.sample_seconds = replica.learn_seconds = replica.wait_seconds = replica.grad_norm = 0;
  replica.turns = 0;
  std::ranges::fill(replica.sums, OffPolicySums{});
  for (ExperienceWorker* worker : replica.workers) {
    worker->begin_update();
    worker->refresh();
  }
  std::int64_t steps = env_steps_;
  for (int made = 0; made < options.rollout_steps; made += options.train_every, steps += options.steps_of_turn()) {
    const double progress = progress_at(steps);
    agent.set_progress(progress);
    for (ExperienceWorker* worker : replica.workers) worker->set_progress(progress);
    const TurnBegin turn{.steps = steps,
                         .progress = progress,
                         .chooser = steps < options.learning_starts ? Chooser::kChance : Chooser::kExplorer};
    if (replica.side) {
      turn_beside(replica, member, turn);
    } else {
      turn_in_turn(replica, member, turn);
    }
  }
  member.strategy.settle({.deadline = Deadline::after(patience()), .stop = member.lost});
}

void OffPolicyRun::turn_in_turn(Replica& replica, learner::Member& member, const TurnBegin& turn) {
  const OffPolicyOptions& options = setup_.off_policy;
  const Clock::time_point start = Clock::now();
  for (ExperienceWorker* worker : replica.workers) {
    for (int step = 0; step < options.train_every; ++step) worker->step(turn.chooser, normalizers_.front());
  }
  const Clock::time_point sampled = Clock::now();
  replica.sample_seconds += std::chrono::duration<double>(sampled - start).count();
  if (turn.steps + options.steps_of_turn() < options.learning_starts) return;
  for (int i = 0; i < options.gradient_steps; ++i) learn(replica, member, turns_ + replica.turns, turn.progress);
  for (ExperienceWorker* worker : replica.workers) worker->refresh();
  replica.learn_seconds += seconds_since(sampled);
}

// The optimizer steps are shared out evenly among the environments' steps, and the environments wait for theirs. So the
// ratio of both is kept exactly, and nothing depends on which side is the faster one.
void OffPolicyRun::turn_beside(Replica& replica, learner::Member& member, const TurnBegin& turn) {
  const OffPolicyOptions& options = setup_.off_policy;
  const Normalizers& frozen = normalizers_.front();
  const auto step_all = [&replica](int /*thread*/) {
    for (ExperienceWorker* worker : replica.workers) worker->step_environments();
  };
  const int learned = turn.steps < options.learning_starts ? 0 : options.gradient_steps;
  for (int step = 0; step < options.train_every; ++step) {
    const Clock::time_point start = Clock::now();
    for (ExperienceWorker* worker : replica.workers) worker->begin_step(turn.chooser, frozen);
    replica.side->start(step_all);
    const Clock::time_point started = Clock::now();
    const int due = (step + 1) * learned / options.train_every - step * learned / options.train_every;
    try {
      for (int i = 0; i < due; ++i) learn(replica, member, turns_ + replica.turns, turn.progress);
    } catch (...) {
      replica.side->wait();  // the task lies on this stack; a failure of its own counts more
      throw;
    }
    const Clock::time_point done = Clock::now();
    replica.side->wait();
    for (ExperienceWorker* worker : replica.workers) worker->end_step(frozen);
    if (due > 0) {
      for (ExperienceWorker* worker : replica.workers) worker->refresh();
    }
    replica.learn_seconds += std::chrono::duration<double>(done - started).count();
    replica.sample_seconds += std::chrono::duration<double>(started - start).count() + seconds_since(done);
  }
}

// Shards draw their rows side by side, then all learn from them in one turn, and those that are drawn by priority learn
// how wrong they were.
void OffPolicyRun::learn(Replica& replica, learner::Member& member, std::int64_t turn, double progress) {
  const OffPolicyOptions& options = setup_.off_policy;
  const double beta = options.priority_beta + (1 - options.priority_beta) * progress;
  for (std::size_t i = 0; i < replica.workers.size(); ++i)
    replica.workers[i]->draw(beta, normalizers_.front(), replica.rows[i]);
  for (std::vector<float>& errors : replica.errors) errors.clear();
  member.learner.batch().load_shards(replica.batches, options.batch_size, learner::Tail::kDrop);
  member.learner.begin_pass(learner::Order::kSequential);
  const OffPolicyAgent::Turn now{.turn = turn,
                                 .rate = options.learning_rate_schedule.factor(setup_.learning_rate, progress),
                                 .seed = seed_of_turn(setup_.seed, turn),
                                 .limits = {.deadline = Deadline::after(patience()), .stop = member.lost}};
  const learner::LearnerReport report =
      agents_[static_cast<std::size_t>(member.replica.placement().local)]->learn(now, replica.sums, replica.errors);
  for (std::size_t i = 0; i < replica.errors.size(); ++i) replica.workers[i]->prioritize(replica.errors[i]);
  replica.wait_seconds += report.step.wait_seconds;
  replica.grad_norm += report.step.grad_norm;
  ++replica.turns;
}

// finish_update() reads in the same order: the rank's numbers, then of each shard its sums and its replay, then the
// results of each group.
void OffPolicyRun::append_numbers() {
  RankNumbers numbers{.grad_norm = at_work_.front().grad_norm, .turns = static_cast<double>(at_work_.front().turns)};
  for (const Replica& replica : at_work_) {
    numbers.sample_seconds = std::max(numbers.sample_seconds, replica.sample_seconds);
    numbers.learn_seconds = std::max(numbers.learn_seconds, replica.learn_seconds - replica.wait_seconds);
    numbers.wait_seconds = std::min(numbers.wait_seconds, replica.wait_seconds);
  }
  numbers.shards = static_cast<double>(workers_.size());
  numbers.env_steps = numbers.shards * static_cast<double>(setup_.off_policy.steps_of_update()) / setup_.shards;
  learner::append_struct(numbers, mine_);
  for (const Replica& replica : at_work_) {
    for (std::size_t i = 0; i < replica.workers.size(); ++i) {
      learner::append_struct(replica.sums[i], mine_);
      learner::append_struct(replica.workers[i]->replay().stats(), mine_);
    }
  }
  for (const auto& worker : workers_) worker->append_results(mine_);
}

// After all replicas are done, one thread of every rank merges what the shards of all ranks did, in the order of the
// run, so that sums have the same bits on any topology.
RunReport OffPolicyRun::finish_update() {
  mine_.clear();
  append_numbers();
  results_.clear();
  setup_.ranks.gather(mine_, all_);
  RunReport report;
  OffPolicySums sums;
  ReplayStats replay;
  RankNumbers first;
  for (const std::vector<double>& rank : all_) {
    std::span<const double> numbers = rank;
    const auto its = learner::take_struct<RankNumbers>(numbers);
    if (report.ranks.empty()) first = its;
    report.sample_seconds = std::max(report.sample_seconds, its.sample_seconds);
    report.learning.learn_seconds = std::max(report.learning.learn_seconds, its.learn_seconds);
    report.learning.sync_seconds = std::max(report.learning.sync_seconds, its.wait_seconds);
    report.ranks.push_back({.sample_seconds = its.sample_seconds,
                            .learn_seconds = its.learn_seconds,
                            .wait_seconds = its.wait_seconds,
                            .env_steps = static_cast<std::int64_t>(its.env_steps)});
    for (int shard = 0; shard < static_cast<int>(its.shards); ++shard) {
      sums.add(learner::take_struct<OffPolicySums>(numbers));
      add_stats(learner::take_struct<ReplayStats>(numbers), replay);
    }
    take_results(numbers, group_moments_, normalizers_, results_);
  }
  normalizers_.front().finish_merge();
  episodes_.add(results_.episodes);
  ++updates_;
  turns_ += static_cast<std::int64_t>(first.turns);
  env_steps_ += setup_.off_policy.steps_of_update();
  report_losses(sums, first.grad_norm, static_cast<std::int64_t>(first.turns), report.learning);
  report_own(sums, replay, report);
  report_episodes(episodes_, report);
  report_metrics(spec_, episodes_, report);
  report.gradients = team_->take_gradients();
  return report;
}

// Means over the rows of each loss; unknown where no step was made.
void OffPolicyRun::report_losses(const OffPolicySums& sums, double grad_norm, std::int64_t turns, LearnReport& report) {
  report.minibatches = turns;
  report.value_loss = sums.rows > 0 ? sums.value_loss / sums.rows : kUnknown;
  report.policy_loss = sums.policy_rows > 0 ? sums.policy_loss / sums.policy_rows : kUnknown;
  report.entropy = sums.policy_rows > 0 ? sums.entropy / sums.policy_rows : kUnknown;
  report.grad_norm = turns > 0 ? grad_norm / static_cast<double>(turns) : kUnknown;
  report.approx_kl = report.clip_fraction = report.explained_variance = kUnknown;
  const OffPolicyOptions& options = setup_.off_policy;
  report.learning_rate =
      options.learning_rate_schedule.at(setup_.learning_rate, progress_at(env_steps_ - options.steps_of_turn()));
}

// Means over shards are plain: each has as many rows and draws as the others.
void OffPolicyRun::report_own(const OffPolicySums& sums, const ReplayStats& replay, RunReport& report) const {
  const auto shards = static_cast<double>(setup_.shards);
  report.own = {{"q_mean", sums.rows > 0 ? sums.value / sums.rows : kUnknown},
                {"replay_rows", static_cast<double>(replay.rows)},
                {"replay_age", replay.mean_age / shards},
                {"replay_ratio", static_cast<double>(replay.sampled) / static_cast<double>(replay.inserted)}};
  if (setup_.off_policy.priority_alpha > 0) {
    report.own.emplace_back("priority_mean", replay.priority_mean / shards);
    report.own.emplace_back("priority_max", replay.priority_max);
  }
  agents_.front()->append_figures(report.own);
}

}  // namespace tandem::rl
