// sync/step_weight.h: how many rows all ranks together have in a step, known before the step's gradients are.
//
// The sum is the first of a step, started when the last backward pass begins, so it is there when the first gradients
// are. It has the bits of the weight that is summed with the gradients (Tally).
//
// Threads: single-thread, the replica's. Blocking: wait() waits for all ranks until `limits`.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "tandem/comm/group.h"

namespace tandem::sync {

class StepWeight {
 public:
  /// `group` is not owned.
  explicit StepWeight(comm::Group& group);

  /// Once a step, on all ranks, before any other of its sums: this rank has so many rows.
  void offer(double weight);
  /// In place of offer(): this rank has left and adds nothing to the step.
  void offer_nothing();

  struct Total {
    double weight = 0;
    double left = 0;  // ranks that have left
  };
  /// When all of the step's sums are started, since others wait for what is not, and before any other is waited for.
  /// Errors say that it was this one.
  [[nodiscard]] Total wait(const Limits& limits);

 private:
  void start(const Total& mine);

  comm::Group& group_;
  const at::Tensor sums_;
  std::optional<comm::Pending> pending_;
};

}  // namespace tandem::sync
