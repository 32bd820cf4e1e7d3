// learner/loss.h: the two kinds of loss function that a Learner takes, with what they get and return.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "tandem/learner/batch.h"
#include "tandem/learner/loaded_batch.h"

namespace tandem::learner {

struct ShardLoss {
  at::Tensor loss;    // scalar: the mean over the shard's valid rows
  double weight = 0;  // rows (or valid elements) that the mean is over; 0: the shard has none and contributes nothing
  Columns outputs{};  // tensors that the program wants of every shard; kept, detached, until the next step
};

/// Computes the loss of one shard with the replica's module, on the replica's thread. Random operations use
/// model::current_generator(), or modules that do (nn::Dropout). The learner calls it once for each shard of a
/// minibatch, in the order of the shards.
using LossFunction = std::function<ShardLoss(const ShardBatch&)>;

/// The result of a GradientFunction.
struct WrittenLoss {
  double loss = 0;    // the mean over the shard's valid rows
  double weight = 0;  // as ShardLoss::weight; 0: nothing needs to have been written
};

/// Computes the loss of one shard without autograd, and itself writes `weight` times the gradient into the .grad of
/// every dense parameter of the replica's module. Each .grad is zeroed memory laid out as the parameter. A parameter
/// whose .grad stays zero takes part with the gradient zero; for a parameter that takes no part, the function resets
/// .grad. The rows are given where they lie, so that the function gathers only what it needs.
using GradientFunction = std::function<WrittenLoss(const ShardRows&)>;

}  // namespace tandem::learner
