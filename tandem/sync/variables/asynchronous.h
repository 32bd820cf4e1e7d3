// sync/asynchronous.h: every replica applies its gradients on its own, without waiting for the others.
//
// Parameters and optimizer state are shared variables in the process of replica 0 (shared_variables.h). A step forms
// the mean gradient of the replica's own shards, clips it, offers it, and takes the values as they are then: they hold
// what the others have applied meanwhile. Replicas of that process call the variables directly, others by messages.
// As tensorpack's AsyncMultiGPUBuilder and, with wait_for_slower, the stale-synchronous parameter server.
//
// What differs from the lockstep strategies: between steps replicas hold different parameters, of different age; a run
// has other bits each time; `weight`, `loss` and `grad_norm` of a report, and the norm that is clipped, are of this
// replica alone. Floating buffers (batch norm) are each replica's own until begin(), leave() or whole_state() makes
// them the mean over the replicas. A replica without valid rows in a step offers nothing: kApplied with weight 0.
//
// Blocking: step() waits for the variables' answer, and for slower replicas under wait_for_slower. begin(), leave() and
// whole_state() wait for all replicas. Errors: besides those of Strategy, PeerLost from step() when another replica's
// process died without leaving, naming it.
#pragma once
#include <memory>

#include "tandem/comm/group.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy_options.h"
#include "tandem/sync/variables/served_strategy.h"

namespace tandem::sync {

class Asynchronous final : public ServedStrategy {
 public:
  /// Neither is owned; the group's members are the run's replicas in order, and all give the same options. Throws
  /// ConfigError when a number is out of range.
  Asynchronous(Replica& replica, comm::Group& group, const AsynchronousOptions& options);

  void begin(const Limits& limits) override;
  void open(int shard) override;
  void close(double weight, double loss) override;
  StepReport step(double lr_factor, const Limits& limits) override;

 private:
  [[nodiscard]] std::shared_ptr<VariableService> make_variables() override;

  const AsynchronousOptions options_;
  const std::unique_ptr<comm::Group> alone_;  // this replica's own gradients are summed over its shards
  GradientMean mean_;
  double weight_ = 0;  // of the shards that were closed since the last step
};

}  // namespace tandem::sync
