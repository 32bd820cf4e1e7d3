// sync/rank_placement.h: where the model of a rank stands that is one replica with one shard, as in loops of one's own.
//
// Threads: any. Waits for nobody.
#pragma once
#include <torch/nn/module.h>

#include <memory>
#include <string_view>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/sync/replica.h"

namespace tandem::sync {

/// Replica `rank` of `ranks`, on the device of the module's parameters. Throws ConfigError when there is no module, or
/// none of its parameters; `who` asks.
[[nodiscard]] inline Placement rank_placement(const std::shared_ptr<torch::nn::Module>& module, int rank, int ranks,
                                              std::string_view who) {
  TANDEM_EXPECTS(module != nullptr, who, " needs a module");
  const std::vector<at::Tensor> parameters = module->parameters();
  if (parameters.empty()) throw ConfigError("the module has no parameters, so there is nothing to train");
  return {.replica = rank,
          .replicas = ranks,
          .shards = ranks,
          .mine = {rank, rank + 1},
          .device = parameters.front().device()};
}

}  // namespace tandem::sync
