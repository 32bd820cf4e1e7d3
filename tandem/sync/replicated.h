// sync/replicated.h: synchronous data parallelism, every replica with all parameters and its own optimizer state.
//
// Each step the mean gradient over all shards of the run is formed once, by a sum along the fixed tree, one division by
// the total weight and at most one clipping by the global norm; then every replica makes the same update. State is
// therefore bit-identical on all replicas, and on any number of them. As tensorpack's SyncMultiGPUReplicatedBuilder and
// RLlib's LocalSyncParallelOptimizer, whose average over the towers that have a gradient is available as
// Divisor::kPresent.
#pragma once
#include <memory>
#include <optional>

#include "tandem/comm/group.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/shard_gradients.h"
#include "tandem/sync/strategy.h"

namespace tandem::sync {

/// What a parameter's summed gradient is divided by.
enum class Divisor {
  kTotal,    // the weight of all shards: one without a gradient counts as zero (the mean of the whole batch)
  kPresent,  // the share of the shards that have a gradient for the parameter (RLlib's average_gradients);
             // takes the shards' weights as equal, and sparse gradients as kTotal does
};

struct ReplicatedOptions {
  std::optional<double> max_grad_norm{};  // clip the mean gradient to this global norm; none: no clipping
  Divisor divisor = Divisor::kTotal;
};

class Replicated final : public Strategy {
 public:
  /// Neither `replica` nor `group` is owned; the group's members are the run's replicas in order.
  /// Throws ConfigError when max_grad_norm is not positive.
  Replicated(Replica& replica, comm::Group& group, const ReplicatedOptions& options);

  void begin(const Limits& limits) override;
  void open(int shard) override { gradients_.open(shard); }
  void close(double weight, double loss) override { gradients_.close(weight, loss); }
  StepReport step(double lr_factor, const Limits& limits) override;
  /// All replicas leave together: a synchronous step needs everyone.
  void leave(const Limits& limits) override { group_.barrier(limits); }

 private:
  void check_same_model(const Limits& limits);
  void all_reduce(const Limits& limits);
  void gather_sparse(const Limits& limits);
  void average_buffers(double shards);
  void apply_present_divisor(double shards);
  double grad_norm(double scale);
  [[noreturn]] void fail_not_finite();

  Replica& replica_;
  comm::Group& group_;
  const ReplicatedOptions options_;
  ShardGradients gradients_;
  std::vector<comm::Pending> pending_;
  std::int64_t steps_ = 0;
};

}  // namespace tandem::sync
