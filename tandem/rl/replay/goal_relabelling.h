// rl/replay/goal_relabelling.h: gives drawn rows goals that were achieved later, and the rewards that follow from them.
//
//   relabelling.relabel(store, rows, random, windows);   // before the windows are summed
//   ... relabelling.goals() ...                          // until the next draw
//
// What is replaced, by which strategy, and what the function of rewards sees: hindsight.h. The function is called once
// a draw, for all steps of all windows with another goal.
//
// Threads: single-thread. It keeps its memory between draws. Errors: none of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/replay/drawn_rows.h"
#include "tandem/rl/replay/hindsight.h"
#include "tandem/rl/replay/step_store.h"

namespace tandem::rl {

class GoalRelabelling {
 public:
  /// The spec has goals, as option_faults() demands.
  GoalRelabelling(const Spec& spec, HindsightOptions options);

  /// Draws which rows get another goal, and which one; changes rewards and ends in their windows. Windows keep their
  /// lengths, also where the new goal is reached before their last step: an end within a window ends its sum.
  /// A row takes one number of `random` for whether, and another one for which, if the strategy leaves a choice.
  void relabel(const StepStore& store, std::span<const DrawnRow> rows, Philox& random, DrawnWindows& windows);

  /// The goals of the last relabel().
  [[nodiscard]] const DrawnGoals& goals() const { return goals_; }
  /// The leaf whose rows goals() replace.
  [[nodiscard]] std::size_t desired_leaf() const { return desired_; }

 private:
  // The step whose achieved goal becomes the row's desired one.
  [[nodiscard]] std::int64_t choose_step(const StepStore& store, const DrawnRow& row, Philox& random) const;
  // Adds the row's window to what the function of rewards will see.
  void gather(const StepStore& store, std::size_t row, const DrawnRow& drawn, const DrawnWindows& windows);
  // Calls the function, and writes its answers into the windows.
  void reward_anew(DrawnWindows& windows);

  const HindsightOptions options_;
  std::size_t achieved_ = 0, desired_ = 0;  // leaves
  DrawnGoals goals_;
  // Of all steps of all windows with another goal: where they are in the windows, and what GoalRows points to.
  std::vector<std::size_t> places_;
  std::vector<std::byte> reached_, wanted_;
  std::vector<double> reward_;
  std::vector<std::uint8_t> terminated_;
};

}  // namespace tandem::rl
