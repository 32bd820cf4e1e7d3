// sync/sync_replicas.h: synchronous training that does not wait for stragglers: a step is made of the first
// `replicas_to_aggregate` gradients that come for it, and what comes later is dropped and its replica told so; or fewer
// replicas give several gradients each.
//
// Parameters and optimizer state lie in the process of replica 0, as under Asynchronous. A step() offers the sums over
// the replica's own shards and returns with a token: the right, and the values, to compute the next gradient. With as
// many gradients as replicas the parameters and optimizer state have the bits of Replicated. Where some are dropped, or
// replicas give several, which ones they are depends on who is fast, and no two runs are alike.
// As TensorFlow's SyncReplicasOptimizer, whose choices tensorflow_compatible() makes.
//
// Reports: kApplied: in the step that was made meanwhile, whose weight, loss and norm (of the mean, before clipping)
// are told; kAccepted: in a step that lacks others still, and kDropped: too late by `staleness` steps; weight, loss and
// norm are the replica's own then. `step` is that of the values which the replica now holds. It counts those of the
// whole run: begin(), a checkpoint or another process that takes over never set it back, and it is at least the number
// of updates that the optimizer's state tells.
//
// Buffers (batch norm) are each replica's own until begin(), leave() or whole_state() makes them the mean over the
// replicas, also where parameters have the bits of Replicated. Who waits for all others between steps says so by
// rest(). Then, and when a replica leaves, a step is made of the gradients of those that work on: at most one of each,
// unless replicas give several, when they give the others', too. A replica that dies ends the run for all, or, with
// OnDeath::kGoOn, counts as one that has left. Replica 0's process holds the variables: its death ends the run, unless
// Standby::kAnotherRank has another process take over after the step that was made last (succession.h). The
// group may have failed by then, so under kGoOn leave() does without it and buffers stay each replica's own; begin(),
// whole_state() and load_whole_state() need all replicas.
//
// kLost: the owner of the variables died with the gradient, and nobody knows what became of it: it counts as offered,
// and neither as applied nor as dropped.
//
// Blocking: step() waits for the next token, resume() too; begin(), leave() and whole_state() wait for all replicas.
// Errors: besides those of Strategy, PeerLost from step() when another replica's process died without leaving, naming
// it.
#pragma once
#include <memory>
#include <optional>

#include "tandem/comm/group.h"
#include "tandem/sync/mean/mean_of_sums.h"
#include "tandem/sync/mean/shard_gradients.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy_options.h"
#include "tandem/sync/variables/moving_average.h"
#include "tandem/sync/variables/served_strategy.h"
#include "tandem/sync/variables/sync_variables.h"

namespace tandem::sync {

class SyncReplicas final : public ServedStrategy {
 public:
  /// Neither is owned; the group's members are the run's replicas in order, and all give the same options. Throws
  /// ConfigError when a number is out of range.
  SyncReplicas(Replica& replica, comm::Group& group, const SyncReplicasOptions& options);

  void begin(const Limits& limits) override;
  void open(int shard) override;
  void close(double weight, double loss) override;
  StepReport step(double lr_factor, const Limits& limits) override;
  /// The others go on with a smaller quorum; returns when all have left, with the same state everywhere. Gradients that
  /// still lack others when the last one leaves are a step. begin() starts anew. Under OnDeath::kGoOn it waits for
  /// those that live.
  void leave(const Limits& limits) override;
  void rest(const Limits& limits) override;
  void resume(const Limits& limits) override;

  /// With moving averages they are part of whole_state(), by names that begin with kAverages; only a strategy that
  /// keeps the same ones loads it then. Gradients of a step that is not made yet are not part of it.
  void load_whole_state(const model::NamedTensors& state) override;

  /// The run's variables, of the replica that owns them: replica 0 unless it died. Null of others, but for those of
  /// replica 0's process where there is no standby.
  [[nodiscard]] SyncVariables* variables() {
    return succession() && !succession()->is_owner() ? nullptr : static_cast<SyncVariables*>(service().get());
  }
  /// Of the owner: the replica that keeps them, too. Nothing of others, and where there is none.
  [[nodiscard]] std::optional<int> standby() const { return succession() ? succession()->standby() : std::nullopt; }

 private:
  [[nodiscard]] std::shared_ptr<VariableService> make_variables() override;
  [[nodiscard]] std::optional<Clock::duration> standby_patience() const override;
  [[nodiscard]] model::NamedTensors besides() override;
  void make_averages();
  [[nodiscard]] MeanGradient own_mean(const Tally& tally);

  const SyncReplicasOptions options_;
  ShardGradients gradients_;
  std::optional<MovingAverage> averages_;  // the variables' as they were last read or loaded
  enum class Stage { kWorking, kResting } stage_ = Stage::kWorking;
};

}  // namespace tandem::sync
