// sync/variable_home.h: parameters and optimizer state that belong to no replica and that all replicas update. They
// have the same layout and optimizer as a replica's, and lie on the CPU.
//
// Threads: caller-locks.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tandem/sync/replica.h"

namespace tandem::sync {

class VariableHome {
 public:
  /// Takes layout and optimizer from `like`, which is not kept.
  explicit VariableHome(Replica& like);

  /// Takes the values and optimizer state of a replica.
  void load(Replica& from);
  /// Gives them to it.
  void store(Replica& to);

  [[nodiscard]] const model::FlatParameters& parameters() const { return parameters_; }
  [[nodiscard]] model::Optimizer& optimizer() { return optimizer_; }
  /// The values, one tensor a flat buffer, and then the optimizer's state. The tensors are the live ones.
  [[nodiscard]] std::vector<at::Tensor> state();
  /// The updates that the optimizer has made: the largest count of any parameter.
  [[nodiscard]] std::int64_t updates();
  /// Gradient memory of this layout.
  [[nodiscard]] model::FlatParameters::Gradients make_gradients() const;

 private:
  model::FlatParameters parameters_;
  model::Optimizer optimizer_;
};

/// These tensors of a replica, in the order of VariableHome::state().
[[nodiscard]] std::vector<at::Tensor> state_of(Replica& replica);

}  // namespace tandem::sync
