#include "tandem/rl/algo/ppo/group_rollout.h"

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// All environments of the group make the same steps, so rows follow from steps.
GroupWindow window_of(const GroupWorker& worker, Clock::time_point start) {
  const int steps = worker.steps_made();
  return {.steps = steps, .rows = steps * worker.envs(), .seconds = seconds_since(start)};
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

// The ways, in this order: a record to follow, a rule that may end groups early, or all steps.
void GroupRollout::collect(std::int64_t update, const Normalizers& frozen) {
  if (!setup_.recorded.empty()) return collect_recorded(update, frozen);
  if (rule_) return collect_until_rule(update, frozen);
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i].unit) {
      rest(i);
      continue;
    }
    GroupWorker& worker = *groups_[i].worker;
    if (CompleteEpisodes* complete = groups_[i].complete) {
      const int rows = complete->collect(update, frozen).steps;
      windows_[i] = {.steps = worker.steps_made(), .rows = rows, .seconds = seconds_since(start)};
    } else {
      worker.sample(frozen);
      windows_[i] = window_of(worker, start);
    }
  }
}

// The environments stay where they are, and the fragment has no rows.
void GroupRollout::rest(std::size_t group) {
  if (groups_[group].complete != nullptr) {
    groups_[group].complete->rest();
  } else {
    groups_[group].stepper->rest();
  }
  windows_[group] = {};
}

// One step of each group in turn, until the rule ends it. Progress is posted after each step, so that the rules of
// other replicas and ranks see it while it is made.
void GroupRollout::collect_until_rule(std::int64_t update, const Normalizers& frozen) {
  const Clock::time_point start = Clock::now();
  rule_->begin(update, learn_seconds_.mean(), start);
  std::vector<std::size_t> under_way;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!groups_[i].unit) {
      rest(i);
      continue;
    }
    groups_[i].stepper->begin(frozen);
    under_way.push_back(i);
  }
  while (!under_way.empty()) {
    std::erase_if(under_way, [&](std::size_t i) {
      RolloutWorker& worker = *groups_[i].stepper;
      worker.step(frozen);
      Progress progress{.round = update, .steps = worker.steps_made()};
      board_->post(*groups_[i].unit, progress);
      if (!rule_->ends(worker.steps_made())) return false;
      progress.finished = true;
      board_->post(*groups_[i].unit, progress);
      (void)worker.end();
      windows_[i] = window_of(worker, start);
      return true;
    });
  }
}

// The record says how many steps each group makes, so no board is needed and the numbers are those of the recorded run.
void GroupRollout::collect_recorded(std::int64_t update, const Normalizers& frozen) {
  if (update >= std::ssize(setup_.recorded)) {
    throw RunError(concat("the record of rollouts that this run follows ends after update ", setup_.recorded.size(),
                          "; go on without it, or ask for no more steps than it has"));
  }
  const Clock::time_point start = Clock::now();
  const std::vector<int>& steps = setup_.recorded[static_cast<std::size_t>(update)];
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const int its = steps.at(static_cast<std::size_t>(first_group_) + i);
    if (its == 0) {
      rest(i);
      continue;
    }
    RolloutWorker& worker = *groups_[i].stepper;
    worker.begin(frozen);
    for (int t = 0; t < its; ++t) worker.step(frozen);
    (void)worker.end();
    windows_[i] = window_of(worker, start);
  }
}

}  // namespace tandem::rl
