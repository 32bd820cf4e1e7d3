// model/optimizer_entries.h: an optimizer's state parameter by parameter, where Optimizer::state() has it by flat
// buffer.
//
// Threads: single-thread, the replica's. Ownership: the tensors alias the state.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tandem/model/flat_parameters.h"
#include "tandem/model/optimizer.h"

namespace tandem::model {

/// The state of one parameter, alive. After it was written to, Optimizer::state_changed() has to be called.
struct OptimizerEntry {
  std::string parameter;
  int group = 0;
  std::vector<std::pair<std::string, at::Tensor>> moments{};  // "exp_avg"; shaped as the parameter
  at::Tensor steps{};                                         // int64 scalar
};

/// The entries of all trainable parameters by their names. For an optimizer that keeps all moments.
[[nodiscard]] std::map<std::string, OptimizerEntry> optimizer_entries(const Optimizer& optimizer,
                                                                      const FlatParameters& parameters);

}  // namespace tandem::model
