// learner/loss.h: what a user's loss takes and gives.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "tandem/learner/batch.h"
#include "tandem/learner/loaded_batch.h"

namespace tandem::learner {

struct ShardLoss {
  at::Tensor loss;    // scalar: the mean over the shard's valid rows
  double weight = 0;  // rows (or valid elements) that the mean is over; 0: the shard has none and contributes nothing
  Columns outputs{};  // whatever else is wanted of every shard; kept, detached, until the next step
};

/// Computes the loss of one shard with the replica's module, on the replica's thread. Random operations use
/// model::current_generator(), or modules that do (nn::Dropout).
using LossFunction = std::function<ShardLoss(const ShardBatch&)>;

}  // namespace tandem::learner
