#include "tandem/rl/algo/off_policy/hindsight_goals.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// A rule that takes many goals at once may round otherwise than for one.
constexpr double kRounding = 1e-5;

GoalStrategy strategy_of(Hindsight hindsight) {
  return hindsight == Hindsight::kFuture  ? GoalStrategy::kFuture
         : hindsight == Hindsight::kFinal ? GoalStrategy::kFinal
                                          : GoalStrategy::kEpisode;
}

}  // namespace

std::optional<HindsightOptions> hindsight_of(EnvGroup& group, Hindsight hindsight, int goals) {
  if (hindsight == Hindsight::kNone) return std::nullopt;
  if (const std::string why = why_no_goals(group.spec()); !why.empty())
    throw ConfigError(concat("hindsight needs an environment with goals, and ", group.spec().id, " ", why));
  GoalRewards* const rewards = goal_rewards_of(group);
  if (rewards == nullptr) {
    throw ConfigError(concat("hindsight cannot be used with ", group.spec().id,
                             ": nothing says what its steps are worth for other goals. A struct needs ",
                             "compute_reward(achieved, desired) (docs/simulator.md), an environment in Python the "
                             "function of this name that Gymnasium-Robotics' have, stepped one by one; and no wrapper "
                             "may change goals or sum up rewards"));
  }
  return HindsightOptions{.strategy = strategy_of(hindsight),
                          .goals = goals,
                          .reward = [rewards](const GoalRows& rows) { rewards->reward_goals(rows); }};
}

void keep_for_hindsight(const Spec& spec, int envs, ReplayOptions& options) {
  if (!options.hindsight) return;
  constexpr std::int64_t kRowsOfAnEnd = 4;
  const GoalLeaves goals = goal_leaves(spec);
  options.leaves.resize(spec.observation.size());
  for (const std::size_t leaf : {goals.achieved, goals.desired}) options.leaves[leaf] = {};
  options.kept_ends = KeptEnds::kAll;
  options.ends = std::max<std::int64_t>(envs, options.rows / kRowsOfAnEnd);
}

GoalCheck::GoalCheck(EnvGroup& group)
    : group_(group),
      leaves_(goal_leaves(group.spec())),
      bytes_(group.spec().observation[leaves_.achieved].bytes()),
      achieved_(static_cast<std::size_t>(group.size()) * bytes_),
      desired_(achieved_.size()),
      reward_(static_cast<std::size_t>(group.size())),
      terminated_(reward_.size()) {}

// The goal of a step is the one that is shown with what it reached: where an episode ended, in its last observation.
// A row that a failure cut short has no reward of the environment's.
void GoalCheck::look_at(const EnvArrays& step) {
  if (left_ == 0) return;
  --left_;
  for (std::size_t e = 0; e < reward_.size(); ++e) {
    const bool has_ended = step.terminated[e] != 0 || step.truncated[e] != 0;
    const std::vector<std::byte*>& shown = has_ended ? step.final_observation : step.observation;
    std::memcpy(achieved_.data() + e * bytes_, shown[leaves_.achieved] + e * bytes_, bytes_);
    std::memcpy(desired_.data() + e * bytes_, shown[leaves_.desired] + e * bytes_, bytes_);
    terminated_[e] = step.terminated[e];
  }
  goal_rewards_of(group_)->reward_goals({.rows = static_cast<std::int64_t>(reward_.size()),
                                         .achieved = achieved_.data(),
                                         .desired = desired_.data(),
                                         .reward = reward_.data(),
                                         .terminated = terminated_.data()});
  for (std::size_t e = 0; e < reward_.size(); ++e) {
    const double paid = step.reward[e], said = reward_[e];
    if (std::abs(paid - said) <= kRounding * std::max(1.0, std::abs(paid))) continue;
    if (paid == 0 && step.truncated[e] != 0) continue;
    throw ConfigError(concat("hindsight cannot be used with ", group_.spec().id, ": environment ", e, " of ",
                             reward_.size(), " was rewarded ", paid, " for a step whose goals are worth ", said,
                             " by compute_reward(). So its reward depends on something else than the goals, such as ",
                             "the action or the info of the step; set hindsight to none"));
  }
}

}  // namespace tandem::rl
