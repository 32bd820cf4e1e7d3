// rl/algo/off_policy/hindsight_goals.h: what a run's hindsight needs of an env group: its rule for rewards, and a look
// whether the rule is the one that its steps are rewarded by.
//
// A reward that also depends on something else, such as a step's action or its info, would be learned wrongly without a
// word: rows with other goals would be paid by another rule than the rest.
//
// Threads: single-thread, the replica's that owns the group.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/rl/algo/off_policy/off_policy_options.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/replay/replay_options.h"

namespace tandem::rl {

/// Hindsight by the group's own rewards; nothing where `hindsight` is kNone. The group outlives it. Throws ConfigError
/// where the group cannot reward goals, which says why.
[[nodiscard]] std::optional<HindsightOptions> hindsight_of(EnvGroup& group, Hindsight hindsight, int goals);

/// Hindsight needs more of a replay than it holds anyway: every episode's last observation, and goals with
/// all digits that their environment gives them, since rewards are computed from them. Episodes that end with their
/// goal may be short, so there is room for one in four rows.
void keep_for_hindsight(const Spec& spec, int envs, ReplayOptions& options);

/// Compares the first steps of a group with what its own rule says of their goals.
class GoalCheck {
 public:
  /// `group` outlives it. A group without hindsight needs none.
  explicit GoalCheck(EnvGroup& group);

  /// `step`: as the group has just written it. Throws ConfigError for a reward that is another one; later steps are not
  /// looked at.
  void look_at(const EnvArrays& step);

 private:
  // Steps of each environment that are compared.
  static constexpr int kSteps = 100;

  // Its leaves are those of the group's spec.
  EnvGroup& group_;
  const GoalLeaves leaves_;
  const std::size_t bytes_;  // of a goal
  int left_ = kSteps;
  // Memory of one look: a row an environment.
  std::vector<std::byte> achieved_, desired_;
  std::vector<double> reward_;
  std::vector<std::uint8_t> terminated_;
};

}  // namespace tandem::rl
