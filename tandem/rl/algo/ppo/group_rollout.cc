#include "tandem/rl/algo/ppo/group_rollout.h"

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

GroupWindow window_of(const GroupWorker& worker, Clock::time_point start) {
  return {.steps = worker.steps_made(), .rows = worker.rows_made(), .seconds = seconds_since(start)};
}

}  // namespace

GroupRollout::GroupRollout(StragglerSetup setup, std::vector<RolloutGroup> groups, int first_group, int steps,
                           const std::optional<ProgressBoard>& board)
    : setup_(std::move(setup)),
      groups_(std::move(groups)),
      first_group_(first_group),
      board_(board),
      windows_(groups_.size()) {
  if (setup_.options.policy == pipeline::Stragglers::kWaitAll || !setup_.recorded.empty()) return;
  TANDEM_CHECK(board_.has_value(), "no board to see the other groups on");
  rule_.emplace(setup_.options, *board_, steps);
}

// Where groups may end early, one step of each in turn: progress is posted after each step, so that the rules of other
// replicas and ranks see it while it is made. A record says how many steps each group makes, so no board is needed and
// the numbers are those of the recorded run.
void GroupRollout::collect(std::int64_t update, std::span<const Normalizers> frozen) {
  if (!rule_ && setup_.recorded.empty()) return collect_all(update, frozen);
  if (!setup_.recorded.empty() && update >= std::ssize(setup_.recorded)) {
    throw RunError(concat("the record of rollouts that this run follows ends after update ", setup_.recorded.size(),
                          "; go on without it, or ask for no more steps than it has"));
  }
  const Clock::time_point start = Clock::now();
  if (rule_) rule_->begin(update, learn_seconds_.mean(), start);
  std::vector<std::size_t> under_way;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const std::vector<int>* recorded = rule_ ? nullptr : &setup_.recorded[static_cast<std::size_t>(update)];
    if (recorded ? recorded->at(static_cast<std::size_t>(first_group_) + i) == 0 : !groups_[i].unit) {
      rest(i);
      continue;
    }
    groups_[i].worker->begin_sample(frozen);
    under_way.push_back(i);
  }
  while (!under_way.empty()) {
    std::erase_if(under_way, [&](std::size_t i) {
      groups_[i].worker->step_sample(frozen);
      if (!ends(i, update)) return false;
      groups_[i].worker->end_sample();
      windows_[i] = window_of(*groups_[i].worker, start);
      return true;
    });
  }
}

// Whether the group ends after the step that it has made.
bool GroupRollout::ends(std::size_t group, std::int64_t update) {
  const int steps = groups_[group].worker->steps_made();
  if (!rule_) {
    const std::vector<int>& recorded = setup_.recorded[static_cast<std::size_t>(update)];
    return steps == recorded[static_cast<std::size_t>(first_group_) + group];
  }
  Progress progress{.round = update, .steps = steps};
  board_->post(*groups_[group].unit, progress);
  progress.finished = rule_->ends(steps);
  if (progress.finished) board_->post(*groups_[group].unit, progress);
  return progress.finished;
}

void GroupRollout::collect_all(std::int64_t update, std::span<const Normalizers> frozen) {
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i].unit) {
      rest(i);
    } else {
      groups_[i].worker->sample(update, frozen);
      windows_[i] = window_of(*groups_[i].worker, start);
    }
  }
}

// The environments stay where they are, and the fragment has no rows.
void GroupRollout::rest(std::size_t group) {
  groups_[group].worker->rest();
  windows_[group] = {};
}

// Groups are taken from the replica that has most of them left until only the share of the present ranks works; then
// the first ones of each replica get places, counted through.
std::vector<std::optional<int>> working_groups(std::span<const Range> replicas, int present, int all) {
  TANDEM_CHECK(!replicas.empty() && 0 < present && present <= all, present, " of ", all, " ranks");
  const auto groups = static_cast<std::size_t>(replicas.back().end);
  std::vector<int> work;  // how many of each replica's
  for (const Range& its : replicas) work.push_back(its.size());
  const auto share = static_cast<std::size_t>(static_cast<std::int64_t>(groups) * present / all);
  for (std::size_t left = groups; left > std::max(share, replicas.size()); --left) --*std::ranges::max_element(work);

  std::vector<std::optional<int>> places(groups);
  int next = 0;
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    const int first = replicas[replica].begin;
    for (int group = first; group < first + work[replica]; ++group) places[static_cast<std::size_t>(group)] = next++;
  }
  return places;
}

}  // namespace tandem::rl
