// rl/env/steps_by_row.h: what a group can do beside stepping all of its environments alike: let some rest, and end an
// episode with a step, as its time limit would.
//
// Wrappers ask a group for it by its type (wrappers/env_wrapper.h): frame skipping lets those environments rest whose
// episode has ended, and a time limit of a run's own ends episodes. EnvGroup is unchanged by it, so groups of plugins
// that were built before have it not, and are served otherwise (wrappers/lone_envs.h).
// Threads: single-thread, as the group.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// What a call of step_rows() does to an environment. kLastStep is a step after which the episode is truncated, if it
/// has not ended by itself.
enum class RowStep : std::uint8_t { kRest, kStep, kLastStep };

/// Whether environment `env` makes a step. No `rows` at all mean that each environment makes one.
[[nodiscard]] inline bool makes_a_step(std::span<const RowStep> rows, std::size_t env) {
  return rows.empty() || rows[env] != RowStep::kRest;
}

/// A group that derives from this class as well is asked for it by dynamic_cast.
class StepsByRow {
 public:
  virtual ~StepsByRow() = default;

  /// Whether step_rows() may be called. A group whose class could may still not be able to, as one around another.
  [[nodiscard]] virtual bool can_step_rows() const = 0;
  /// As EnvGroup::step(), with an entry of `rows` for each environment. What belongs to an environment that rests stays
  /// as it is, in `out` too; its action must be in the action space all the same. Throws as EnvGroup::step().
  virtual void step_rows(std::span<const RowStep> rows, const EnvActions& actions, const EnvArrays& out) = 0;
};

/// The group as one that can step by rows; null where it cannot.
[[nodiscard]] inline StepsByRow* stepped_by_row(EnvGroup& group) {
  auto* const by_row = dynamic_cast<StepsByRow*>(&group);
  return by_row != nullptr && by_row->can_step_rows() ? by_row : nullptr;
}

}  // namespace tandem::rl
