// sync/asynchronous.h: every replica applies its gradients on its own, without waiting for the others.
//
// Parameters and optimizer state are shared variables in the process of replica 0. A step forms the mean gradient of
// the replica's own shards, clips it, offers it, and takes the values as they are then: they hold what the others have
// applied meanwhile. Replicas of that process call the variables directly, others by messages. As tensorpack's
// AsyncMultiGPUBuilder and, with wait_for_slower, the stale-synchronous parameter server.
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
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/sync/mean/gradient_mean.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy_options.h"
#include "tandem/sync/variables/served_strategy.h"
#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

/// Counts which replica has seen which version of the shared variables, and says which may go on. A version is counted
/// up by every update that is applied. A gradient's staleness is the number of updates by others between the parameters
/// it was made with and those it meets.
///
/// Threads: caller-locks. Nothing here waits.
class StalenessLedger {
 public:
  /// Takes the two bounds from `options`.
  StalenessLedger(int replicas, const AsynchronousOptions& options);

  /// How an offered gradient was judged.
  struct Entry {
    std::int64_t staleness = 0;
    bool is_applied = true;  // false: too stale, dropped
  };
  /// The replica offers a gradient made with what it pulled last; when it is to be applied, the version goes up.
  [[nodiscard]] Entry offer(int replica);
  /// Counts a step of the replica without a gradient, because it had no rows.
  void pass(int replica) { ++seat(replica).steps; }
  /// Whether the replica may begin its next step now.
  [[nodiscard]] bool may_go_on(int replica) const { return behind(replica).empty(); }
  /// The replicas that keep this one from going on.
  [[nodiscard]] std::vector<int> behind(int replica) const;
  /// The replica has read the variables.
  void pulled(int replica) { seat(replica).pulled = version_; }
  /// Nobody waits for the replica any more, until rejoin() or reset().
  void leave(int replica) { seat(replica).has_left = true; }
  [[nodiscard]] bool has_left(int replica) const { return seats_[static_cast<std::size_t>(replica)].has_left; }
  /// From now on all are there, have read the newest version, and none is ahead of the others.
  void rejoin();
  /// Version 0, nobody has stepped or left; counts begin anew.
  void reset();

  [[nodiscard]] std::int64_t version() const { return version_; }
  /// The counts of each replica's gradients since reset(). Each gradient is applied or dropped when it is offered.
  [[nodiscard]] std::vector<GradientTotals> totals() const;

 private:
  struct Seat {
    std::int64_t steps = 0, pulled = 0;
    bool has_left = false;
    GradientTotals totals;
  };
  [[nodiscard]] Seat& seat(int replica) { return seats_[static_cast<std::size_t>(replica)]; }

  const std::optional<std::int64_t> wait_for_slower_, drop_staler_;
  std::vector<Seat> seats_;
  std::int64_t version_ = 0;
};

/// The variables of an asynchronous run: each gradient is applied when it comes, on its own. Threads, blocking, errors:
/// as VariableService. exchange() waits only for replicas that are behind, under wait_for_slower.
class SharedVariables final : public VariableService {
 public:
  /// `like` holds the values to begin with.
  SharedVariables(Replica& like, const AsynchronousOptions& options);

  void exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients, const Limits& limits,
                const Read& read) override;
  /// A replica that rests, or has left, holds no other up until end_rest().
  void rest(int replica) override { leave(replica); }
  void end_rest() override;
  void resume(int, const Limits&, const Read&) override {}
  void leave(int replica) override;
  /// The account, in which each gradient that is applied is a step of its own.
  [[nodiscard]] GradientAccount take_account() override;

 private:
  StepReport apply(const Offer& offer, const model::FlatParameters::Gradients& gradients) TANDEM_REQUIRES(mutex_);
  void start_anew(Replica& from) override TANDEM_REQUIRES(mutex_);
  // A replica that rests has left as far as waits of the others go: see rest().
  [[nodiscard]] bool is_present(int replica) const override TANDEM_REQUIRES(mutex_) {
    return !ledger_.has_left(replica);
  }

  StalenessLedger ledger_ TANDEM_GUARDED_BY(mutex_);
  StepSizes sizes_ TANDEM_GUARDED_BY(mutex_);  // since the account was taken
};

class Asynchronous final : public ServedStrategy {
 public:
  /// Neither is owned; the group's members are the run's replicas in order, and all give the same options. Throws
  /// ConfigError when a number is out of range.
  Asynchronous(Replica& replica, comm::Group& group, const AsynchronousOptions& options);

  void begin(const Limits& limits) override {
    ServedStrategy::begin(limits);
    weight_ = 0;
  }
  void open(int shard) override {
    require_begun();
    mean_.open(shard);
  }
  void close(double weight, double loss) override {
    mean_.close(weight, loss);
    weight_ += weight;
  }
  StepReport step(double lr_factor, const Limits& limits) override;

 private:
  [[nodiscard]] std::shared_ptr<VariableService> make_variables() override {
    return std::make_shared<SharedVariables>(replica_, options_);
  }

  const AsynchronousOptions options_;
  const std::unique_ptr<comm::Group> alone_;  // this replica's own gradients are summed over its shards
  GradientMean mean_;
  double weight_ = 0;  // of the shards that were closed since the last step
};

}  // namespace tandem::sync
