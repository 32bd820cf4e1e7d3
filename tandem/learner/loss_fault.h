// learner/loss_fault.h: says why the loss of a shard is not finite, once it has happened: reads the shard's rows and
// all parameters.
//
// Threads: the replica's.
#pragma once
#include <string>

#include "tandem/learner/batch_names.h"
#include "tandem/learner/loaded_batch.h"

namespace torch::nn {
class Module;
}

namespace tandem::learner {

struct LossFault {
  LossParts parts{};      // those without a name are left out
  const ShardRows& rows;  // that the loss is of
  const BatchNames& names;
};

/// Sentences about the first part that is not finite; the first element of the rows that is not finite, or the largest
/// where its square is beyond float32, or where it was given to the training and is beyond any scale that one learns
/// from; and parameters that are not finite or large, which alone speak for a learning rate that is too high.
[[nodiscard]] std::string why_not_finite(const LossFault& fault, const torch::nn::Module& module);

/// The sentence about such an element alone; empty where there is none. For gradients that are not finite, though the
/// loss was.
[[nodiscard]] std::string absurd_rows(const LossFault& fault);

}  // namespace tandem::learner
