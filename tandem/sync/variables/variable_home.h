// sync/variable_home.h: parameters and optimizer state that belong to no replica: those that all of them update.
//
// Of the same layout and optimizer as a replica's, on the CPU.
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
  /// `like` is not kept.
  explicit VariableHome(Replica& like);

  /// Takes the values and optimizer state of a replica.
  void load(Replica& from);
  /// Gives them to it.
  void store(Replica& to);

  [[nodiscard]] const model::FlatParameters& parameters() const { return parameters_; }
  [[nodiscard]] model::Optimizer& optimizer() { return optimizer_; }
  /// The values, one tensor a buffer, and then the optimizer's state: in place, in the order that state_of() gives
  /// those of a replica.
  [[nodiscard]] std::vector<at::Tensor> state();
  /// Updates of the parameter that has had most of them.
  [[nodiscard]] std::int64_t updates();
  /// Gradient memory of this layout.
  [[nodiscard]] model::FlatParameters::Gradients make_gradients() const;

 private:
  model::FlatParameters parameters_;
  model::Optimizer optimizer_;
};

/// Likewise, of a replica.
[[nodiscard]] std::vector<at::Tensor> state_of(Replica& replica);

}  // namespace tandem::sync
