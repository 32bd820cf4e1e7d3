// sync/sync_batch_norm.h: batch norm whose mean and variance are taken over the batches of all members of a group, as
// torch.nn.SyncBatchNorm in Python.
//
//     comm::World statistics = comm::open_world_beside(world, me);                       // a group of its own
//     norm = register_module("norm", sync::SyncBatchNorm(torch::nn::BatchNormOptions(8), *statistics.group));
//
// In training, forward() exchanges count, mean and sum of squared deviations of each channel, and the backward pass two
// sums; both in float64, combined in the order of the ranks, so that all members compute with the same bits. Members
// may have different numbers of rows, none too. The gradient of the input is that of the sum of all members' losses,
// which is what DataParallel::backward(loss, rows) makes of mean losses. Gradients of weight and bias are the member's
// own part, which DataParallel sums. In eval() nothing is exchanged.
//
// Parameters and buffers have the names, shapes and options of torch::nn::BatchNorm1d, 2d and 3d, so files and
// copy_module() go from one to the other. There is no conversion of a finished module: Module::replace_module() changes
// what is registered, but the typed member that a module's forward() calls, and the one inside of a Sequential, would
// still be the old layer. Construct the network with a SyncBatchNorm instead.
//
// The group must be of its own, not the one that DataParallel has, because across a network gradients are summed there
// while the backward pass runs. All members must make the same forward and backward passes through their layers in the
// same order, accumulate() included. A rank that calls finish() before others does not take part any more: with unequal
// numbers of batches, the others' next forward() ends with an error.
//
// Threads: one a member. On the CPU LibTorch runs a backward pass on the thread that started it; that of CUDA does so
// on another one, while the one that started it waits. Blocking: forward() in training and the backward pass wait for
// all members until `patience`. Errors: those of the group; DataError for an input that is no [rows, channels, ...], or
// for fewer than two values a channel in all. A second derivative is refused.
#pragma once
#include <torch/nn/modules/batchnorm.h>

#include <chrono>

#include "tandem/base/clock.h"
#include "tandem/comm/group.h"

namespace tandem::sync {

class SyncBatchNormImpl : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  /// `group` is not owned and outlives every graph made here.
  SyncBatchNormImpl(const torch::nn::BatchNormOptions& options, comm::Group& group,
                    Clock::duration patience = std::chrono::minutes(5));

  /// `input`: [rows, channels, ...] in float32, float64, bfloat16 or float16; returns the same shape and type.
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const at::Tensor& input) override;

  comm::Group* group_;
  Clock::duration patience_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace tandem::sync
