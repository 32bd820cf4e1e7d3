// rl/algo/off_policy/written_gradients.h: what losses that write their gradients themselves (learner::GradientFunction)
// do with the parameters that a step does not concern.
//
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <vector>

namespace tandem::rl {

/// The parameters of some modules, to be left alone in a step.
class Untouched {
 public:
  explicit Untouched(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {}
  /// They take no part in the step: their gradients are none, and the optimizer leaves them and their moments alone.
  void leave_alone() const {
    for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

 private:
  // Handles of the module's own tensors.
  std::vector<at::Tensor> parameters_;
};

}  // namespace tandem::rl
