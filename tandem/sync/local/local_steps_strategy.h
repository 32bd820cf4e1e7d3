// sync/local/local_steps_strategy.h: every replica makes optimizer steps of its own, and all exchange how far they came
// from time to time (local_exchange.h).
//
// A step forms the mean gradient of the replica's own shards, clips it and updates the replica's own parameters. Every
// so many steps, and in agree(), leave() and whole_state(), the replicas exchange.
//
// What differs from the lockstep strategies: between exchanges replicas hold different parameters, moments and buffers;
// `weight`, `loss` and `grad_norm` of a report, and the norm that is clipped, are of this replica alone. The numbers do
// not depend on speed or topology, but on the number of replicas. A replica without valid rows in a step changes
// nothing: kApplied with weight 0.
//
// Threads: see Strategy. Blocking: begin(), agree(), leave(), whole_state(), and step() when an exchange is due. The
// errors are those of Strategy.
#pragma once
#include <cstdint>
#include <memory>

#include "tandem/comm/group.h"
#include "tandem/sync/local/local_exchange.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"

namespace tandem::sync {

class LocalStepsStrategy final : public Strategy {
 public:
  /// Neither is owned; the group's members are the run's replicas in order, and all give the same options. Throws
  /// ConfigError when an option is out of range.
  LocalStepsStrategy(Replica& replica, comm::Group& group, const LocalStepsOptions& options);

  void begin(const Limits& limits) override;
  void open(int shard) override { mean_.open(shard); }
  void close(double weight, double loss) override;
  StepReport step(double lr_factor, const Limits& limits) override;
  void agree(const Limits& limits) override { exchange_.agree(limits); }
  void settle(const Limits& limits) override { exchange_.settle(limits); }
  /// Ends an exchange that is under way: its sums may not wait for collectives that were begun later.
  void rest(const Limits& limits) override { exchange_.finish(limits); }
  /// Takes part in the others' exchanges until all have left. `limits` are for all of these together.
  void leave(const Limits& limits) override { exchange_.leave(limits); }
  /// Settles first.
  [[nodiscard]] model::NamedTensors whole_state(const Limits& limits) override;
  void load_whole_state(const model::NamedTensors& state) override;

 private:
  [[nodiscard]] model::NamedTensors named_state();

  Replica& replica_;
  comm::Group& group_;
  const std::unique_ptr<comm::Group> alone_;  // this replica's own gradients are summed over its shards
  GradientMean mean_;
  LocalExchange exchange_;
  double weight_ = 0;  // of the shards that were closed since the last step
  std::int64_t steps_ = 0;
};

}  // namespace tandem::sync
