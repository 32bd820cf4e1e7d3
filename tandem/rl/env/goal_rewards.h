// rl/env/goal_rewards.h: what a group can do whose environments have goals: say what a step would have earned if its
// goal had been another one. Hindsight (rl/replay/hindsight.h) asks for it.
//
// An environment with goals shows the leaves "achieved_goal" and "desired_goal", of one type and shape, beside whatever
// else it shows, as those of Gymnasium-Robotics do. Its reward follows from these two alone.
//
//   struct Reach {
//     static double compute_reward(std::span<const float> achieved, std::span<const float> desired);
//     static bool compute_terminated(std::span<const float> achieved, std::span<const float> desired);   // optional
//     ...                                            // the rest as env_concepts.h says
//   };
//
// `achieved` is what was reached by the step. The elements are float, double, std::uint8_t or std::int64_t, as the
// leaves are. Where the task never ends by its goal, as Gymnasium-Robotics' do not, compute_terminated() is left out:
// ends then stay what they were. A struct's functions are asked of the first environment of a group for all of them; so
// they must not depend on options that differ between episodes, or on anything else that changes.
//
// Threads: single-thread, as the group. Errors: EnvError when a function throws, or gives a reward that is not finite.
#pragma once
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// The leaves of an environment with goals.
inline constexpr const char* kAchievedGoal = "achieved_goal";
inline constexpr const char* kDesiredGoal = "desired_goal";

/// Steps whose desired goal was replaced, to be rewarded anew. `achieved` and `desired` are [rows, bytes of the leaf]:
/// the goal that the step reached, and the one that now counts. Both are aligned for the leaf's elements.
struct GoalRows {
  std::int64_t rows = 0;
  const std::byte* achieved = nullptr;
  const std::byte* desired = nullptr;
  /// [rows]: to be written.
  double* reward = nullptr;
  /// [rows], 0 or 1: holds what the environment said for its own goal. It is changed where the end of the task depends
  /// on the goal.
  std::uint8_t* terminated = nullptr;
};

/// A group that derives from this class as well is asked for it by dynamic_cast, as StepsByRow is.
class GoalRewards {
 public:
  virtual ~GoalRewards() = default;

  /// Whether reward_goals() may be called. A group whose class could may still not be able to, as one around another.
  [[nodiscard]] virtual bool can_reward_goals() const = 0;
  /// Writes the rewards, and the terminations where they depend on the goal. Changes no environment. Throws EnvError.
  virtual void reward_goals(const GoalRows& rows) = 0;
};

/// The group as one that rewards goals; null where it cannot.
[[nodiscard]] inline GoalRewards* goal_rewards_of(EnvGroup& group) {
  auto* const its = dynamic_cast<GoalRewards*>(&group);
  return its != nullptr && its->can_reward_goals() ? its : nullptr;
}

/// The places of the two leaves in a spec.
struct GoalLeaves {
  std::size_t achieved = 0, desired = 0;
};
/// Why an environment of this spec has no goals, in a clause behind its name; empty where it has.
[[nodiscard]] std::string why_no_goals(const Spec& spec);
/// The spec must have goals.
[[nodiscard]] GoalLeaves goal_leaves(const Spec& spec);

// The forms of a user's functions.

/// For leaves of `Element`. The function is static or const: nobody's state may change by it.
template <typename Env, typename Element>
concept RewardsGoalsOf = requires(const Env& env, std::span<const Element> goal) {
  { env.compute_reward(goal, goal) } -> std::convertible_to<double>;
};
/// The same of ends, which a struct may leave as they are.
template <typename Env, typename Element>
concept EndsAtGoalsOf = requires(const Env& env, std::span<const Element> goal) {
  { env.compute_terminated(goal, goal) } -> std::convertible_to<bool>;
};
/// For leaves of any type. Whether it is that of the spec's leaves is seen when a group is made (goal_faults()).
template <typename Env>
concept HasGoalReward = RewardsGoalsOf<Env, float> || RewardsGoalsOf<Env, double> ||
    RewardsGoalsOf<Env, std::uint8_t> || RewardsGoalsOf<Env, std::int64_t>;

/// What keeps the struct's functions from being called for goals of its spec, one sentence each; empty where nothing
/// does.
template <typename Env>
[[nodiscard]] std::vector<std::string> goal_faults(const Spec& spec) {
  if constexpr (!HasGoalReward<Env>) {
    return {};
  } else {
    if (const std::string why = why_no_goals(spec); !why.empty())
      return {concat(spec.id, ": its struct has compute_reward(), and it ", why)};
    const Leaf& leaf = spec.observation[goal_leaves(spec).achieved];
    const bool takes = leaf.type == ElementType::kFloat32   ? RewardsGoalsOf<Env, float>
                       : leaf.type == ElementType::kFloat64 ? RewardsGoalsOf<Env, double>
                       : leaf.type == ElementType::kUInt8   ? RewardsGoalsOf<Env, std::uint8_t>
                                                            : RewardsGoalsOf<Env, std::int64_t>;
    if (takes) return {};
    return {concat(spec.id, ": compute_reward() of its struct takes no goals of ", name_of(leaf.type),
                   ", as which its spec shows them")};
  }
}

/// Asks a struct for the rewards of rows of `Element`, which it takes. Throws EnvError with the bare reason.
template <typename Element, typename Env>
void reward_rows(const Env& env, std::size_t elements, const GoalRows& rows) {
  const auto* const achieved = reinterpret_cast<const Element*>(rows.achieved);
  const auto* const desired = reinterpret_cast<const Element*>(rows.desired);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.rows); ++i) {
    const std::span reached(achieved + i * elements, elements), wanted(desired + i * elements, elements);
    rows.reward[i] = env.compute_reward(reached, wanted);
    if (!std::isfinite(rows.reward[i])) throw EnvError(concat("its reward of a goal is ", rows.reward[i]));
    if constexpr (EndsAtGoalsOf<Env, Element>) rows.terminated[i] = env.compute_terminated(reached, wanted) ? 1 : 0;
  }
}

/// The same by the type of the spec's leaves, of a struct without goal_faults().
template <HasGoalReward Env>
void reward_rows_of(const Env& env, const Spec& spec, const GoalRows& rows) {
  const Leaf& leaf = spec.observation[goal_leaves(spec).achieved];
  const auto elements = static_cast<std::size_t>(leaf.count());
  if constexpr (RewardsGoalsOf<Env, float>) {
    if (leaf.type == ElementType::kFloat32) return reward_rows<float>(env, elements, rows);
  }
  if constexpr (RewardsGoalsOf<Env, double>) {
    if (leaf.type == ElementType::kFloat64) return reward_rows<double>(env, elements, rows);
  }
  if constexpr (RewardsGoalsOf<Env, std::uint8_t>) {
    if (leaf.type == ElementType::kUInt8) return reward_rows<std::uint8_t>(env, elements, rows);
  }
  if constexpr (RewardsGoalsOf<Env, std::int64_t>) {
    if (leaf.type == ElementType::kInt64) return reward_rows<std::int64_t>(env, elements, rows);
  }
  fail_check("compute_reward() takes the goals of the spec", __FILE__, __LINE__, describe(leaf));
}

}  // namespace tandem::rl
