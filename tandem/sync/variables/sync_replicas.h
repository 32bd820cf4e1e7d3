// sync/sync_replicas.h: synchronous training that does not wait for stragglers. A step is made of the first
// `replicas_to_aggregate` gradients that come for it; gradients that come later are dropped, and their replicas told
// so. With fewer replicas than that, replicas give several gradients each.
//
// Parameters and optimizer state lie in the process of replica 0 (served_strategy.h). A step() offers the sums over the
// replica's own shards and returns with a token: the right, and the values, to compute the next gradient. With as many
// gradients as replicas, parameters and optimizer state have the bits of Replicated. Where gradients are dropped, or
// replicas give several, it depends on who is fast which gradients make a step, and no two runs are alike. As
// TensorFlow's SyncReplicasOptimizer, whose choices tensorflow_compatible() makes.
//
// Verdicts of a step's report:
// - kApplied: the gradient is part of the step that was made meanwhile. Weight, loss and norm (of the mean, before
//   clipping) are those of that step.
// - kAccepted: the gradient is part of a step that still lacks others. Weight, loss and norm are the replica's own.
// - kDropped: the gradient came too late, by `staleness` steps. Weight, loss and norm are the replica's own.
// - kLost: the owner of the variables died with the gradient, and nobody knows what became of it. It counts as offered,
//   and neither as applied nor as dropped.
// `step` is that of the values which the replica now holds. It counts the steps of the whole run: begin(), a checkpoint
// or another process that takes over never set it back, and it is at least the number of updates that the optimizer's
// state tells.
//
// A replica that waits for all others between steps has to say so by rest(). While it rests, and after it has left, a
// step is made of the gradients of the replicas that work on: at most one of each, unless replicas give several; then
// they give those of the others, too.
//
// A replica that dies ends the run for all, or, with OnDeath::kGoOn, counts as one that has left. The death of the
// process that holds the variables ends the run, unless Standby::kAnotherRank has another process take over after the
// last step (succession.h). The group may have failed by then, so under kGoOn leave() does without it, and buffers stay
// each replica's own; begin(), whole_state() and load_whole_state() need all replicas.
//
// Blocking: step() and resume() wait for the next token; begin(), leave() and whole_state() wait for all replicas.
// Errors: those of Strategy; under OnDeath::kEnd also PeerLost from step(), naming a replica whose process died without
// leaving.
#pragma once
#include <memory>
#include <optional>

#include "tandem/comm/group.h"
#include "tandem/sync/mean/mean_of_sums.h"
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
  void close(double weight, double loss) override { gradients_.close(weight, loss); }
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

  /// The run's variables, for the replica that owns them: replica 0 unless it died. Without a standby, for the other
  /// replicas of its process, too. Null for all others.
  [[nodiscard]] SyncVariables* variables() {
    return succession() && !succession()->is_owner() ? nullptr : static_cast<SyncVariables*>(service().get());
  }
  /// The replica that keeps the variables, too, for the owner; nothing for others, and where there is no standby.
  [[nodiscard]] std::optional<int> standby() const { return succession() ? succession()->standby() : std::nullopt; }

 private:
  [[nodiscard]] std::shared_ptr<VariableService> make_variables() override {
    return std::make_shared<SyncVariables>(replica_, options_);
  }
  [[nodiscard]] std::optional<Clock::duration> standby_patience() const override {
    return options_.standby == Standby::kNone ? std::nullopt : std::optional(options_.standby_patience);
  }
  [[nodiscard]] model::NamedTensors besides() override {
    return averages_ ? averages_->averages() : model::NamedTensors{};
  }
  void make_averages();
  [[nodiscard]] MeanGradient own_mean(const Tally& tally);

  const SyncReplicasOptions options_;
  ShardGradients gradients_;
  std::optional<MovingAverage> averages_;  // copies of the variables' averages, as they were last read or loaded
  enum class Stage { kWorking, kResting } stage_ = Stage::kWorking;
};

}  // namespace tandem::sync
