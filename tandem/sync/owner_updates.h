// sync/owner_updates.h: synchronous data parallelism in which every element of the parameters is updated by one
// replica, its owner, which alone keeps optimizer state for it. What divided and parameter_server have in common; they
// differ in who owns what.
//
// Each step the mean gradient over all shards of the run is formed once, on all replicas (gradient_mean.h): norm and
// clipping take the whole of it. The owners then update their elements and hand the new values round. The arithmetic of
// an element is that of Replicated, so parameters and optimizer state have the same bits, unless Optimizer::keep_at()
// has it done on another kind of device. Step counts of parameters, and all of sparse buffers, are kept and updated by
// every replica.
//
// Threads: see Strategy. Errors: after the failure of a peer the parameters are of no step, some updated and some not.
#pragma once
#include "tandem/comm/group.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/ownership.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"

namespace tandem::sync {

class OwnerUpdates : public Strategy {
 public:
  void begin(const Limits& limits) override;
  void open(int shard) override { mean_.open(shard); }
  void close(double weight, double loss) override { mean_.close(weight, loss); }
  StepReport step(double lr_factor, const Limits& limits) override;
  /// Takes part in the others' steps until all have left, its own elements' updates included. `limits` are for all of
  /// those together.
  void leave(const Limits& limits) override;
  /// Beside the state in one piece, a replica holds the whole of one moment at a time.
  [[nodiscard]] model::NamedTensors whole_state(const Limits& limits) override;
  void load_whole_state(const model::NamedTensors& state) override;

  [[nodiscard]] const Ownership& ownership() const { return ownership_; }

 protected:
  /// Neither `replica` nor `group` is owned; `replica` has an optimizer that was not used yet. The same `ownership` on
  /// all members. Throws ConfigError when max_grad_norm is not positive.
  OwnerUpdates(Replica& replica, comm::Group& group, const MeanOptions& mean, Ownership ownership);

 private:
  void update(const MeanGradient& mean, const Limits& limits);

  Replica& replica_;
  comm::Group& group_;
  const Ownership ownership_;
  GradientMean mean_;
  std::int64_t steps_ = 0;
};

}  // namespace tandem::sync
