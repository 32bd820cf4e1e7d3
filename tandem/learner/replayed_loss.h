// learner/replayed_loss.h: a loss whose two passes are recorded at the replica's first steps and replayed in all others
// (device/recorded_work.h), for models so small that starting their kernels takes longer than the kernels do.
//
// A replay does the same work on the same memory each time. Therefore the rows of a step are copied to where those of
// the first step lay, numbers that change from step to step are handed in as a tensor on the device, and the host reads
// results after the passes, not within.
//
// The bits are those of the same loss as a LossFunction. Every parameter of the module takes part in each step, and
// hooks on them are told of the recording, not of its replays. Gradients begin at zero
// (FlatParameters::Options::Start). Threads: single-thread, the replica's. Blocking: run() waits for the device, for
// the loss.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tandem/device/recorded_work.h"
#include "tandem/learner/loaded_batch.h"
#include "tandem/sync/replica.h"

namespace tandem::learner {

/// The result of a RecordableLoss, on the replica's device.
struct DeviceLoss {
  at::Tensor loss;     // scalar: the mean over the shard's rows
  at::Tensor numbers;  // [n]: figures that the program wants on the host
};

/// Computes the loss of one shard with the replica's module. It may do what record_work() allows, draws no random
/// numbers and keeps none of the tensors that it computes. `constants`: [k] float64, the numbers of this step.
using RecordableLoss = std::function<DeviceLoss(const ShardBatch& rows, const at::Tensor& constants)>;

/// A ReplayedLoss keeps a recording for each shard, since each shard has memory of its own.
class ReplayedLoss {
 public:
  /// `replica` is not owned. `loss` lives as long as this, and so does whatever it refers to.
  /// Throws InvariantError when the replica's gradients begin with nothing.
  ReplayedLoss(sync::Replica& replica, RecordableLoss loss);
  ReplayedLoss(const ReplayedLoss&) = delete;
  ReplayedLoss& operator=(const ReplayedLoss&) = delete;

  /// A GradientFunction but for its other arguments: the loss of `rows`, which `batch` gave and which must all be
  /// valid, and its gradients. The weight is the number of rows; without any nothing is done. `constants`: as many in
  /// each step. A minibatch of another number of rows than the one before is recorded anew. Throws as record_work(),
  /// and InvariantError for padded rows.
  WrittenLoss run(const LoadedBatch& batch, const ShardRows& rows, std::span<const double> constants);

  /// DeviceLoss::numbers of the shard's last run() with rows. The span is valid until the shard's next run().
  [[nodiscard]] std::span<const double> numbers(int shard) const;

 private:
  struct Shard {
    ShardBatch rows;          // memory of its own
    at::Tensor constants;     // [k], memory of its own
    at::Tensor results;       // [1 + n] float64: the loss, and the numbers
    at::Tensor host_results;  // `results` on the host
    std::int64_t runs = 0;    // with this memory
    std::unique_ptr<device::RecordedWork> passes;
  };
  // take() copies the rows and numbers of a step into the shard's memory; differentiate() runs both passes on it.
  void take(const LoadedBatch& batch, const ShardRows& rows, std::span<const double> constants, Shard& shard) const;
  void differentiate(Shard& shard) const;

  const sync::Placement placement_;
  const RecordableLoss loss_;
  std::vector<Shard> shards_;  // of the replica
};

}  // namespace tandem::learner
