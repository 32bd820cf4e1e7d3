// rl/algo/decision_trajectory.h: decisions of the agents of one policy on their way to the learner (decision_log.h):
// what V-trace needs of them, in memory of its own that is made once.
//
// Threads: single-thread; it is handed from thread to thread by queues.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/rollout/decision_log.h"

namespace tandem::rl {

class DecisionTrajectory {
 public:
  /// For fragments like this one.
  DecisionTrajectory(const DecisionFragment& like, c10::Device device);

  void copy_from(const DecisionFragment& fragment);

  /// One sequence for the learner, which TrajectoryView reads: views, until the next copy. Columns have a row a
  /// decision; observations and masks, which have rows beyond them, are states.
  [[nodiscard]] const learner::Batch& batch() const { return batch_; }
  [[nodiscard]] std::int64_t decisions() const { return decisions_; }

 private:
  // Memory for as many rows as a fragment has.
  learner::Columns columns_, states_;
  learner::Batch batch_;
  std::int64_t decisions_ = 0;
};

}  // namespace tandem::rl
