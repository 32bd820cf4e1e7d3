// sync/replicated.h: synchronous data parallelism, every replica with all parameters and its own optimizer state.
//
// Each step the mean gradient over all shards of the run is formed once (gradient_mean.h); then every replica makes the
// same update. State is therefore bit-identical on all replicas, and on any number of them; whole_state() looks whether
// it is, and throws RunError naming tensor and replicas where something has changed it elsewhere. As tensorpack's
// SyncMultiGPUReplicatedBuilder, whose sum in place of the average is Divisor::kShard, and RLlib's
// LocalSyncParallelOptimizer, whose average over the towers that have a gradient is Divisor::kPresent.
#pragma once
#include "tandem/comm/group.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"

namespace tandem::sync {

class Replicated final : public Strategy {
 public:
  /// Neither `replica` nor `group` is owned; the group's members are the run's replicas in order.
  /// Throws ConfigError when max_grad_norm is not positive.
  Replicated(Replica& replica, comm::Group& group, const MeanOptions& options)
      : replica_(replica), group_(group), mean_(replica, group, options) {}

  void begin(const Limits& limits) override;
  void open(int shard) override { mean_.open(shard); }
  void close(double weight, double loss) override { mean_.close(weight, loss); }
  StepReport step(double lr_factor, const Limits& limits) override;
  /// Takes part in the others' steps until all have left, so its state stays equal to theirs. `limits` are for all of
  /// those together.
  void leave(const Limits& limits) override;
  [[nodiscard]] model::NamedTensors whole_state(const Limits& limits) override;
  void load_whole_state(const model::NamedTensors& state) override;

 private:
  Replica& replica_;
  comm::Group& group_;
  GradientMean mean_;
  std::int64_t steps_ = 0;
};

}  // namespace tandem::sync
