#include "tandem/rl/algo/ppo/ppo_run.h"

#include <array>
#include <limits>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// The times of a report that the slowest replica of all ranks sets.
constexpr std::array kTimes{&LearnReport::load_seconds, &LearnReport::learn_seconds, &LearnReport::sync_seconds};

std::size_t local_of(learner::Member& member) { return static_cast<std::size_t>(member.replica.placement().local); }

// Means of sums over rows. A rank whose groups all rest has none.
std::optional<RankReport::Learning> means_of(const PpoSums& sums) {
  if (sums.rows == 0) return std::nullopt;
  RankReport::Learning means{sums, sums.rows};
  means /= sums.rows;
  return means;
}

}  // namespace

struct PpoRun::RankNumbers {
  double sample_seconds = 0;  // of the slowest replica
  // The time of the replica that waited least for the rollouts of others; what others took longer was waiting.
  double learning_seconds = std::numeric_limits<double>::infinity();
  double learn_seconds = 0;                                       // of the slowest replica, without waits
  double wait_seconds = std::numeric_limits<double>::infinity();  // of the replica that waited least
  PpoSums learned = {};
};

learner::ReplicaTeam& PpoRun::any_team() const {
  return *std::ranges::find_if(seats_, [](const Seat& seat) { return seat.team != nullptr; })->team;
}

// Groups that rest and rollouts that end early come first: what they do depends on this run alone, and is recorded.
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

// All replicas of a seat have made the same choice, so the first one speaks for them.
std::string PpoRun::gradients_by() const {
  std::string text;
  for (std::size_t s = 0; s < seats_.size(); ++s) {
    if (seats_[s].team) append_gradients(map_[s].name, seats_[s].ppo.front()->gradients_by(), text);
  }
  return text;
}

// The enumerators are in order of precedence: sampling, then learning, then waiting.
Phase PpoRun::phase() const {
  Phase first = Phase::kWait;
  for (const Seat& seat : seats_) {
    for (const auto& ppo : seat.ppo) first = std::min(first, ppo->phase());
  }
  return first;
}

std::vector<learner::ReplicaTeam::Work> PpoRun::work() const {
  std::vector<learner::ReplicaTeam::Work> all;
  for (const Seat& seat : seats_) {
    if (seat.team) add_work(seat.team->work(), all);
  }
  return all;
}

// An update with one agent is one run of the team, in which each replica samples and learns as it comes, and one
// exchange between ranks. With several agents all ranks have to know what was decided before anybody learns from it:
// sample, exchange results, learn for one seat after the other, exchange times.
RunReport PpoRun::update() {
  progress_ = static_cast<double>(env_steps_) / static_cast<double>(setup_.total_steps);
  if (!is_several()) {
    seats_.front().team->run([this](learner::Member& member) {
      collect(local_of(member));
      learn(seats_.front(), member);
    });
    return finish_update();
  }
  const Clock::time_point start = Clock::now();
  any_team().run([this](learner::Member& member) { collect(local_of(member)); });
  gather_results();
  meeting_seconds_ = seconds_since(start) - std::ranges::max(sample_seconds_);
  require_decisions();
  for (Seat& seat : seats_) {
    if (seat.team) seat.team->run([this, &seat](learner::Member& member) { learn(seat, member); });
  }
  return finish_update();
}

void PpoRun::collect(std::size_t local) {
  const auto all_at = [this, local](Phase phase) {
    for (const Seat& seat : seats_) {
      if (seat.team) seat.ppo[local]->at(phase);
    }
  };
  const Clock::time_point start = Clock::now();
  all_at(Phase::kSample);
  rollouts_[local]->set_progress(progress_);
  rollouts_[local]->collect(updates_, normalizers_);
  if (is_several()) {
    all_at(Phase::kWait);  // until it is the policy's turn to learn
  } else {
    for (Fragment* fragment : seats_.front().fragments[local])
      compute_gae(*fragment, setup_.ppo.gamma, setup_.ppo.gae_lambda);
  }
  sample_seconds_[local] = seconds_since(start);
}

// At its end all replicas are equal, so that it is the same run from a checkpoint on.
void PpoRun::learn(Seat& seat, learner::Member& member) {
  const Clock::time_point start = Clock::now();
  LearnReport& report = seat.learned[local_of(member)];
  report = seat.ppo[local_of(member)]->update(seat.fragments[local_of(member)], progress_, patience());
  const Clock::time_point learned = Clock::now();
  member.strategy.settle({.deadline = Deadline::after(patience()), .stop = member.lost});
  report.wait_seconds += seconds_since(learned);
  report.all_seconds = seconds_since(start);
}

// Writes how far each group of this rank came, then the results of each.
void PpoRun::append_results() {
  mine_.push_back(static_cast<double>(workers_.size()));
  for (const auto& rollout : rollouts_) {
    for (const GroupWindow& window : rollout->windows()) learner::append_struct(window, mine_);
  }
  for (const auto& worker : workers_) worker->append_results(mine_);
}

// Reads the results of one rank, whose groups come in their order.
void PpoRun::take_results(std::span<const double> numbers) {
  std::int64_t env_steps = 0;
  const auto groups = static_cast<int>(learner::take_struct<double>(numbers));
  for (int i = 0; i < groups; ++i) {
    groups_.push_back(learner::take_struct<GroupWindow>(numbers));
    env_steps += groups_.back().rows;
  }
  rl::take_results(numbers, group_moments_, normalizers_, results_);
  steps_of_ranks_.push_back(env_steps);
}

void PpoRun::clear_results() {
  groups_.clear();
  steps_of_ranks_.clear();
  results_.clear();
}

// Ranks and their groups are read in the order of the run, the same on every rank.
void PpoRun::gather_results() {
  mine_.clear();
  append_results();
  clear_results();
  setup_.ranks.gather(mine_, all_);
  for (const std::vector<double>& rank : all_) take_results(rank);
  for (std::size_t s = 0; s < seats_.size(); ++s) seats_[s].episodes.add(results_.policies[s].episodes);
}

// A minibatch without a row in any shard would have no mean. `most_pieces` is enough to look at, since a shard with as
// many rows or sequences as there are minibatches has one for each.
void PpoRun::require_decisions() const {
  const std::int64_t minibatches = setup_.ppo.pass_minibatches();
  for (std::size_t s = 0; s < seats_.size(); ++s) {
    const GroupResults::OfPolicy& its = results_.policies[s];
    if (!seats_[s].team || its.most_pieces >= minibatches) continue;
    const char* pieces = remembers(*seats_[s].modules.front()) ? " sequences at most" : " at most";
    throw RunError(concat("policy '", map_[s].name, "' made ", its.decisions, " decisions in update ", updates_ + 1,
                          ", ", its.most_pieces, pieces, " in an env group, and a pass has ", minibatches,
                          " minibatches, which would be empty; its agents act seldom: raise "
                          "rollout_steps or num_envs, or lower the minibatches"));
  }
}

// take_numbers() reads in the same order: the rank's numbers, then the times of each seat.
void PpoRun::append_numbers() {
  RankNumbers numbers{.sample_seconds = std::ranges::max(sample_seconds_)};
  for (std::size_t local = 0; local < sample_seconds_.size(); ++local) {
    double all = 0, wait = 0;  // of the replica, whose seats learn one after the other
    for (const Seat& seat : seats_) {
      if (!seat.team) continue;
      all += seat.learned[local].all_seconds;
      wait += seat.learned[local].wait_seconds;
    }
    numbers.learning_seconds = std::min(numbers.learning_seconds, all);
    numbers.learn_seconds = std::max(numbers.learn_seconds, all - wait);
    numbers.wait_seconds = std::min(numbers.wait_seconds, wait + meeting_seconds_);
  }
  for (const Seat& seat : seats_) {
    for (const auto& ppo : seat.ppo) {
      for (const PpoSums& of_shard : ppo->sums()) numbers.learned.add(of_shard);
    }
  }
  learner::append_struct(numbers, mine_);
  for (const Seat& seat : seats_) {
    for (const auto time : kTimes) {
      double most = 0;
      for (const LearnReport& replica : seat.learned) most = std::max(most, replica.*time);
      mine_.push_back(most);
    }
  }
}

// Reads the numbers of one rank, and keeps its times in seat.learned.front() where they are longer: the slowest replica
// sets the times of an update.
PpoRun::RankNumbers PpoRun::take_numbers(std::span<const double>& numbers) {
  const auto its = learner::take_struct<RankNumbers>(numbers);
  for (Seat& seat : seats_) {
    for (const auto time : kTimes) {
      const auto seconds = learner::take_struct<double>(numbers);
      if (seat.team) seat.learned.front().*time = std::max(seat.learned.front().*time, seconds);
    }
  }
  return its;
}

// After all replicas are done, one thread of every rank merges what the groups of all ranks did. The order of the
// groups is that of the run, so that sums have the same bits on any topology.
RunReport PpoRun::finish_update() {
  mine_.clear();
  append_numbers();
  if (!is_several()) {
    append_results();
    clear_results();
  }
  setup_.ranks.gather(mine_, all_);
  RunReport report;
  report.ranks.reserve(all_.size());
  double learning = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& rank : all_) {
    std::span<const double> numbers = rank;
    const RankNumbers its = take_numbers(numbers);
    report.sample_seconds = std::max(report.sample_seconds, its.sample_seconds);
    learning = std::min(learning, its.learning_seconds);
    if (!is_several()) take_results(numbers);
    report.ranks.push_back({.sample_seconds = its.sample_seconds,
                            .learn_seconds = its.learn_seconds,
                            .wait_seconds = its.wait_seconds,
                            .env_steps = steps_of_ranks_[report.ranks.size()],
                            .learning = means_of(its.learned)});
  }
  for (const auto& rollout : rollouts_) rollout->learned(learning);
  for (Normalizers& its : normalizers_) its.finish_merge();
  episodes_.add(results_.episodes);
  ++updates_;
  account_rollouts(report);
  report_episodes(episodes_, report);
  report_metrics(spec_, episodes_, report);
  if (is_several()) {
    for (std::size_t s = 0; s < seats_.size(); ++s) {
      PolicyReport& its = report.policies.emplace_back();
      its.name = map_[s].name;
      its.decisions = results_.policies[s].decisions;
      report_episodes(seats_[s].episodes, its);
      if (seats_[s].team) its.learning = seats_[s].learned.front();
    }
    report.learning = mean_of(report.policies);
  } else {
    report.learning = seats_.front().learned.front();
    report.gradients = seats_.front().team->take_gradients();
  }
  return report;
}

// The time that was saved is that of the slowest group, had it gone on at its speed to the last step, beyond what the
// rollout took.
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

}  // namespace tandem::rl
