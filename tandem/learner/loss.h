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

/// A loss whose gradients are written already.
struct WrittenLoss {
  double loss = 0;    // the mean over the shard's valid rows
  double weight = 0;  // as ShardLoss::weight; 0: nothing needs to have been written
};

/// The other way: computes the loss of one shard without autograd, and itself writes `weight` times its gradient into
/// the .grad of every dense parameter of the replica's module, which is zeroed memory laid out as the parameter. One
/// that it leaves at zero took part with the gradient zero; a parameter that takes no part gets its .grad reset. Rows
/// are given where they lie, so nothing is gathered that is not wanted.
using GradientFunction = std::function<WrittenLoss(const ShardRows&)>;

}  // namespace tandem::learner
