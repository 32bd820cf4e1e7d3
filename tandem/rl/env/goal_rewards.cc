#include "tandem/rl/env/goal_rewards.h"

#include <algorithm>

namespace tandem::rl {
namespace {

// The number of leaves where there is none of that name.
std::size_t place_of(const Spec& spec, const char* name) {
  return static_cast<std::size_t>(std::ranges::find(spec.observation, name, &Leaf::name) - spec.observation.begin());
}

}  // namespace

// Goals are compared and exchanged number by number, so both leaves must be alike.
std::string why_no_goals(const Spec& spec) {
  const std::size_t achieved = place_of(spec, kAchievedGoal), desired = place_of(spec, kDesiredGoal);
  const std::size_t leaves = spec.observation.size();
  if (achieved == leaves || desired == leaves) {
    return concat("shows no leaves ", kAchievedGoal, " and ", kDesiredGoal, ", but ",
                  joined(spec.observation, [](const Leaf& leaf) { return leaf.name; }));
  }
  const Leaf &reached = spec.observation[achieved], &wanted = spec.observation[desired];
  if (reached.type == wanted.type && reached.shape == wanted.shape) return "";
  return concat("shows ", describe(reached), " and ", describe(wanted), ", which are not of one type and shape");
}

GoalLeaves goal_leaves(const Spec& spec) {
  const GoalLeaves its{.achieved = place_of(spec, kAchievedGoal), .desired = place_of(spec, kDesiredGoal)};
  TANDEM_CHECK(std::max(its.achieved, its.desired) < spec.observation.size(), spec.id, " has no goals");
  return its;
}

}  // namespace tandem::rl
