// rl/algo/impala/trajectory.h: what V-trace needs of fragments, in memory beside the learner that is made once.
//
// Shard s of the run's S has environments s * N / S to (s + 1) * N / S of the N that one rollout worker of all ranks
// together steps, all steps of each, and, of a policy that remembers, its state before the first step.
//
// Threads: single-thread; a loader fills it, then it is the learner's.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/policy/observation.h"
#include "tandem/rl/rollout/decision_log.h"

namespace tandem::rl {

/// One policy's rows of one shard: whole fragments of environments with one agent, side by side, or the decisions of
/// several agents (decision_log.h), one behind the other.
/// The shape of the memory is fixed by the constructor. Its addresses never change.
class Trajectory {
 public:
  /// Memory for `parts` fragments like this one.
  Trajectory(const Fragment& like, int parts, c10::Device device);
  /// Memory for fragments of decisions like this one.
  Trajectory(const DecisionFragment& like, c10::Device device);

  /// Copies the environments of all parts, one after the other. They fill the memory.
  /// Throws InvariantError when the environments are more or fewer than the memory has.
  void copy_from(std::span<const Fragment> parts);
  /// Copies the decisions that there are.
  /// Throws InvariantError when there are more than the memory holds.
  void copy_from(const DecisionFragment& fragment);

  /// One sequence for the learner, which TrajectoryView reads: views, until the next copy. Columns have a row for each
  /// step of each environment, or each decision; observations and masks, which have more rows, are states.
  [[nodiscard]] const learner::Batch& batch() const { return batch_; }
  /// Decisions of the last fragment; 0 of one agent.
  [[nodiscard]] std::int64_t decisions() const { return decisions_; }

 private:
  learner::Columns columns_,
      states_;  // the memory, with the fragment's dimensions; of decisions without its one column
  learner::Batch batch_;
  std::int64_t decisions_ = 0;
};

/// A trajectory's batch by the meaning of its columns: [T, N, ...] and [T + 1, N, ...] of N environments' T steps;
/// [C, ...] and [C + B, ...] of C decisions and B rows beyond them.
/// Views share the batch's memory: they show what is copied there later.
/// Observations and masks have T * N + beyond rows, actions T * N.
struct TrajectoryView : ActedRows {
  std::int64_t steps = 0, rows = 0;  // of decisions: C, and 1
  std::int64_t beyond = 0;           // rows that only bootstrap: N; of decisions: B
  at::Tensor reward, done;           // [T, N], as log_prob; of decisions: [C]
  at::Tensor next;                   // of decisions: [C], see vtrace.h; else undefined
  at::Tensor state;                  // [N, state size], or undefined

  [[nodiscard]] std::int64_t count() const { return steps * rows; }
  /// For a number of each row, those beyond included: [T + 1, N]; of decisions: [C + B].
  [[nodiscard]] std::vector<std::int64_t> shape_of_values() const;
};
/// The names of columns and states that are told apart by them.
inline constexpr const char *kMaskColumn = "action_mask", *kStateColumn = "state", *kNextColumn = "next";
/// Writes the view into one that may be used again, so that no memory is asked for.
void take_view(const learner::Columns& columns, const learner::Columns& states, TrajectoryView& view);

}  // namespace tandem::rl
