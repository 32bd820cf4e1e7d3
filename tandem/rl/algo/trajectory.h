// rl/algo/trajectory.h: a fragment on its way to the learner: what V-trace needs of it, in memory of its own.
//
// Threads: single-thread; it is handed from thread to thread by queues.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

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

/// A batch of that kind by the meaning of its columns, [T, N, ...] and [T + 1, N, ...].
struct TrajectoryView {
  std::int64_t steps = 0, rows = 0;
  Observation observation;            // [(T + 1) * N, ...]
  at::Tensor action_mask;             // [(T + 1) * N, ...]; undefined without masks
  at::Tensor action;                  // [T * N, ...]
  at::Tensor log_prob, reward, done;  // [T, N]
  at::Tensor state;                   // [N, state size], or undefined
};
[[nodiscard]] TrajectoryView trajectory_view(const learner::Columns& columns, const learner::Columns& states);
/// The same into one that is used again.
void take_view(const learner::Columns& columns, const learner::Columns& states, TrajectoryView& view);

}  // namespace tandem::rl
