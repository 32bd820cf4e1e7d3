// rl/algo/trajectory.h: a fragment on its way to the learner: what V-trace needs of it, in memory of its own.
//
// Threads: single-thread; it is handed from thread to thread by queues.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/policy/observation.h"
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

/// Time-major, as Fragment.
struct Trajectory {
  /// `state_size`: of a policy that remembers, else 0.
  Trajectory(const Spec& spec, int steps, int rows, std::int64_t state_size, c10::Device device);

  int steps, rows;
  std::vector<at::Tensor> observation;        // per leaf [T + 1, N, ...]
  at::Tensor action_mask;                     // [T + 1, N, mask elements]; undefined without masks
  at::Tensor action, log_prob, reward, done;  // [T, N, ...], as the policy that acted left them
  at::Tensor state;                           // [1, N, state size], before the first step; or undefined

  /// The environments of all parts, one after the other: as many, and of as many steps.
  void copy_from(std::span<const Fragment> parts);

  /// One sequence for the learner: views, made once. Columns have T * N rows; observations and masks, of which there is
  /// one step more, are states.
  [[nodiscard]] const learner::Batch& batch() const { return batch_; }

 private:
  learner::Batch batch_;
};

/// A batch of that kind, or of decisions (decision_trajectory.h), by the meaning of its columns. Of N environments' T
/// steps, [T, N, ...] and [T + 1, N, ...]; of C decisions and B rows beyond them [C, ...] and [C + B, ...].
struct TrajectoryView {
  std::int64_t steps = 0, rows = 0;   // of decisions: C, and 1
  std::int64_t beyond = 0;            // rows that only bootstrap: N; of decisions: B
  Observation observation;            // [T * N + beyond, ...]
  at::Tensor action_mask;             // [T * N + beyond, ...]; undefined without masks
  at::Tensor action;                  // [T * N, ...]
  at::Tensor log_prob, reward, done;  // [T, N]; of decisions: [C]
  at::Tensor next;                    // of decisions: [C], see vtrace.h; else undefined
  at::Tensor state;                   // [N, state size], or undefined

  [[nodiscard]] std::int64_t count() const { return steps * rows; }
  /// For a number of each row, those beyond included: [T + 1, N]; of decisions: [C + B].
  [[nodiscard]] std::vector<std::int64_t> shape_of_values() const;
};
/// The names of columns and states that are told apart by them.
inline constexpr const char *kMaskColumn = "action_mask", *kStateColumn = "state", *kNextColumn = "next";
[[nodiscard]] TrajectoryView trajectory_view(const learner::Columns& columns, const learner::Columns& states);
/// The same into one that is used again.
void take_view(const learner::Columns& columns, const learner::Columns& states, TrajectoryView& view);

}  // namespace tandem::rl
