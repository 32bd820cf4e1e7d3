// sync/strategy.h: how the gradients of many replicas become the next parameters of each.
//
// A replica's training step is
//
//     for each shard of the replica:  strategy.open(shard);  (weight * loss).backward();  strategy.close(weight, loss);
//     report = strategy.step(lr_factor, limits);
//
// where the loss of a shard is the mean over its `weight` rows, so that gradients are sums until the one division at
// the end.
//
// Threads: each replica has a strategy object of its own, called on the replica's thread. Blocking: begin(), step() and
// leave() may wait for peers until `limits`. Errors: PeerLost, DeadlineExceeded or GroupAborted when a peer fails,
// RunError for gradients that are not finite; the parameters are then those of the last finished step.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/concurrency/limits.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {

/// The fate of an offered gradient, which is judged as a whole. kLost: the process that held the variables died with
/// it, and another has taken over (SyncReplicas); the gradient is part of no step.
enum class Verdict { kApplied, kAccepted, kDropped, kLost };

struct StepReport {
  Verdict verdict = Verdict::kApplied;
  std::int64_t step = 0;       // optimizer steps since begin(); of the whole run under SyncReplicas
  std::int64_t staleness = 0;  // steps between the parameters that the gradients were made with and those they met
  double weight = 0;           // of all shards together
  double loss = 0;             // weighted mean over all shards
  double grad_norm = 0;        // of the mean gradient, before clipping
  std::int64_t untouched = 0;  // parameters that no shard's loss reached: the step leaves them and their moments alone
  double wait_seconds = 0;     // spent in collectives: waiting for the others, and adding
  // Where a step is made of the first offers that come (SyncReplicas): the step that this offer is part of, as `step`
  // counts (of a dropped offer, the step for which it came too late); and how many gradients of how many it had.
  std::int64_t part_of = 0;
  std::int64_t gradients = 1, of_gradients = 1;
};

/// Counts of a replica's gradients over many steps.
struct StalenessTotals {
  std::int64_t offered = 0, dropped = 0;  // gradients; the rest was applied
  std::int64_t sum = 0, most = 0;         // staleness of all that were offered
  double wait_seconds = 0;                // in steps, for others and for the sums

  void add(const StepReport& step) {
    wait_seconds += step.wait_seconds;
    if (step.weight == 0) return;  // nothing was offered
    ++offered;
    dropped += step.verdict == Verdict::kDropped ? 1 : 0;
    sum += step.staleness;
    most = std::max(most, step.staleness);
  }
  [[nodiscard]] double mean() const {
    return offered == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(offered);
  }
};

/// Counts of one replica's gradients. offered = applied + dropped + in flight holds at any time. Applied and dropped
/// gradients never become anything else; one in flight may become either, or stays in flight when the process that had
/// it dies.
struct GradientTotals {
  std::int64_t offered = 0, applied = 0, dropped = 0;
  [[nodiscard]] std::int64_t accepted() const { return offered - dropped; }
  /// Gradients that were accepted for a step that was not made yet, or never will be.
  [[nodiscard]] std::int64_t in_flight() const { return offered - applied - dropped; }
};

/// Least, sum and most, over some steps, of a figure that each step has.
struct OverSteps {
  double least = 0, sum = 0, most = 0;
};

/// The effective batches of some steps. Parts of it are added up with add(), in any order.
struct StepSizes {
  std::int64_t steps = 0;
  OverSteps gradients;  // that a step was made of
  OverSteps rows;       // that these were sums over: their weight

  void add(const StepSizes& more) {
    if (more.steps == 0) return;
    const bool is_first = steps == 0;
    steps += more.steps;
    const auto widen = [is_first](OverSteps& all, const OverSteps& its) {
      all.least = is_first ? its.least : std::min(all.least, its.least);
      all.sum += its.sum;
      all.most = is_first ? its.most : std::max(all.most, its.most);
    };
    widen(gradients, more.gradients);
    widen(rows, more.rows);
  }
  [[nodiscard]] double mean_of(OverSteps StepSizes::*figure) const {
    return steps == 0 ? 0 : (this->*figure).sum / static_cast<double>(steps);
  }
};

/// Counts of the gradients of all replicas of a run, and what its steps were made of.
struct GradientAccount {
  std::vector<GradientTotals> replicas;  // of the run, in order, since its variables were loaded
  StepSizes sizes;                       // of the steps since the account was taken last
};

class Strategy {
 public:
  virtual ~Strategy() = default;  // never waits for peers

  /// Makes all replicas equal: parameters, buffers, optimizer state. Collective; may be called again at any time
  /// between steps. Throws ConfigError naming the first parameter that differs in name, shape or dtype.
  virtual void begin(const Limits& limits) = 0;

  /// Before the forward pass of each of the replica's shards, which come in order, each once a step. Until close(), the
  /// gradients that autograd accumulates, and changes of the module's buffers, count as the shard's.
  virtual void open(int shard) = 0;
  /// After the backward pass. `weight`: rows (or valid elements) of the shard's mean, by which the global mean weighs
  /// it. `loss`: the shard's mean, for the report.
  virtual void close(double weight, double loss) = 0;

  /// After the last backward pass. Returns when the parameters for the next step are in place. The optimizer's learning
  /// rate is multiplied by `lr_factor` in this step.
  virtual StepReport step(double lr_factor, const Limits& limits) = 0;

  /// Makes parameters and buffers equal on all replicas where they are not between steps: before an evaluation, say.
  /// Collective; between steps, and where steps are made without all replicas, after rest().
  virtual void agree(const Limits& /*limits*/) {}
  /// The end of an update, after which a run may be saved. Where saving would else change what follows, because
  /// replicas have optimizer state of their own (LocalStepsStrategy), all state becomes equal. Collective; between
  /// steps.
  virtual void settle(const Limits& /*limits*/) {}

  /// This replica offers nothing more. The strategy decides whether the others go on without it, or all leave together.
  virtual void leave(const Limits& limits) = 0;

  /// This replica is about to wait for all others by other means: a collective of the program, the end of a phase.
  /// Where steps are made without all replicas, none waits for this one until all others have called rest(), too. May
  /// wait for an answer. A second call changes nothing.
  virtual void rest(const Limits& /*limits*/) {}
  /// After rest() and before the next open(): takes the parameters as they are by now. Nothing without a rest.
  virtual void resume(const Limits& /*limits*/) {}

  /// This replica has failed. Ends the others' waits for it, but for those in its group, which the caller aborts, too.
  virtual void abort(const std::string& /*why*/) {}

  /// Parameters, buffers and optimizer state under the names that the module gives them, whole and laid out alike under
  /// every strategy, for hashes and checkpoints. Between steps; collective. The first replica of each process gets
  /// them, its others get nothing. Tensors may be the live ones, which the next step changes. Throws RunError, naming
  /// tensor and replicas, where replicas that update their own parameters no longer hold the same.
  [[nodiscard]] virtual model::NamedTensors whole_state(const Limits& limits) = 0;
  /// Takes what whole_state() gave, under any strategy and on any number of replicas. Every replica calls it; none
  /// waits for the others. Throws CheckpointError listing what is missing or of another shape; nothing is changed then.
  virtual void load_whole_state(const model::NamedTensors& state) = 0;

  /// Where replicas make steps without waiting for all: the counts of all gradients, from the strategy of replica 0;
  /// the others, and other strategies, give nothing. Never waits; counts of steps under way are as far as these have
  /// come.
  [[nodiscard]] virtual std::optional<GradientAccount> take_account() { return std::nullopt; }
};

}  // namespace tandem::sync
