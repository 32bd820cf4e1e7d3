// sync/sync_variables.h: the variables of a run under SyncReplicas: gradients are gathered until a step has its quorum,
// then applied as one.
//
// The replica that brings the gradient which completes a step makes the step: mean, clipping, update, moving averages.
// Then tokens of the next step are given out. A gradient that is late, or beyond the quorum, is dropped at once
// (token_protocol.h).
//
// Threads, blocking, errors: as VariableService. exchange() and resume() wait for a token of the replica; both throw
// PeerLost when the replica is taken for dead meanwhile. A step that cannot be made (a sum that is not finite) fails
// the run.
//
// The variables of another process may make each step, too, and go on when this process dies (succession.h).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "tandem/sync/mean/mean_of_sums.h"
#include "tandem/sync/strategy.h"
#include "tandem/sync/variables/gradient_accumulator.h"
#include "tandem/sync/variables/moving_average.h"
#include "tandem/sync/variables/token_protocol.h"
#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

/// One replica in the record that a second process keeps besides the tensors of the variables, so that it can go on
/// when the first process dies.
struct KeptSeat {
  TokenProtocol::SeatRecord record;
  std::int64_t applied = -1;  // sequence number of its newest gradient that is part of a step; -1: none
  StepReport report;          // of that step
};

/// The numbers of a step's update, and the record of all replicas after it.
struct KeptStep {
  std::int64_t step = 0;
  double learning_rate = 0;  // of group 0
  double scale = 1, lr_factor = 1;
};
struct KeptRecord : KeptStep {
  std::vector<KeptSeat> seats;
};

/// Makes the step of `record` from these sums in another process, and by `here`, which may change them, in this process
/// at the same time. Returns when both are made: tokens of the next may be given out. `state`: gives all tensors of the
/// variables. Called with the variables' lock, one step after the other; waits for the other process at most as long as
/// it was told to. What it throws fails the run.
using MakeStep =
    std::function<void(const KeptRecord& record, const model::FlatParameters::Gradients& sums,
                       const std::function<void()>& here, const std::function<std::vector<at::Tensor>()>& state)>;

class SyncVariables final : public VariableService {
 public:
  /// `like` holds the values to begin with, and says how many replicas there are. Throws ConfigError when an option is
  /// out of range.
  SyncVariables(Replica& like, SyncReplicasOptions options);

  void exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients, const Limits& limits,
                const Read& read) override;
  void rest(int replica) override;
  void end_rest() override {}
  void resume(int replica, const Limits& limits, const Read& read) override;
  void leave(int replica) override;
  [[nodiscard]] StepReport recall(int replica, const Recalled& told) override;
  void lose(int replica, const std::exception_ptr& why) override;
  [[nodiscard]] GradientAccount take_account() override;

  /// Copies of the moving averages as they are; nothing without.
  [[nodiscard]] model::NamedTensors averages() const;
  /// Returns the gradients of the newest step, in order of arrival.
  [[nodiscard]] std::vector<GradientId> newest() const;

  // --- kept by two processes ---
  /// From now on `elsewhere` makes each step, before there are tokens of the next. An empty function ends that.
  void keep_elsewhere(MakeStep elsewhere);
  /// Shows the variables as they are, under the lock.
  void show_whole(const std::function<void(const KeptRecord&, const std::vector<at::Tensor>& state)>& show);

  /// In the process that keeps the variables: takes the owner's. `write` is shown the tensors to write them into.
  void adopt(const KeptRecord& record, const ReadState& write);
  /// Makes the owner's next step, with the same bits.
  void follow(const KeptRecord& record, const model::FlatParameters::Gradients& sums);
  /// Goes on in place of the owner, which is gone, after the step that was followed last. This replica, `mine`, and
  /// `others` are still there; each of them will call recall() before it does anything else.
  void take_over(int mine, const std::set<int>& others);

 private:
  void start_anew(Replica& from) override TANDEM_REQUIRES(mutex_);
  [[nodiscard]] bool is_present(int replica) const override TANDEM_REQUIRES(mutex_) {
    return protocol_->is_present(replica);
  }
  [[nodiscard]] bool is_resting(int replica) const override TANDEM_REQUIRES(mutex_) {
    return protocol_->is_resting(replica);
  }
  [[nodiscard]] model::NamedTensors besides() override TANDEM_REQUIRES(mutex_) {
    return averages_ ? averages_->averages() : model::NamedTensors{};
  }
  StepReport offer_gradient(const Offer& offer, const model::FlatParameters::Gradients& gradients)
      TANDEM_REQUIRES(mutex_);
  /// Makes the step that is complete, if one is.
  void make_step() TANDEM_REQUIRES(mutex_);
  /// No gradient is gathered yet.
  void gather_anew() TANDEM_REQUIRES(mutex_);
  /// Runs `act` and the step that it completes, if it does, and tells all. A failure of that step fails the run for
  /// all.
  void act_and_settle(const std::function<void()>& act);
  void require_present(int replica) const TANDEM_REQUIRES(mutex_);
  void await_token(int replica, const Limits& limits) TANDEM_REQUIRES(mutex_);
  /// The optimizer's update and that of the averages; returns when they are kept elsewhere, too.
  void update(const MeanGradient& mean, const model::FlatParameters::Gradients& sums) TANDEM_REQUIRES(mutex_);
  [[nodiscard]] KeptRecord record(double scale, double lr_factor) TANDEM_REQUIRES(mutex_);

  const SyncReplicasOptions options_;
  std::optional<TokenProtocol> protocol_ TANDEM_GUARDED_BY(mutex_);
  std::unique_ptr<GradientAccumulator> accumulator_ TANDEM_GUARDED_BY(mutex_);
  std::optional<MovingAverage> averages_ TANDEM_GUARDED_BY(mutex_);
  std::vector<double> factors_ TANDEM_GUARDED_BY(mutex_);  // of the learning rate, of the accepted gradients
  double rows_ TANDEM_GUARDED_BY(mutex_) = 0;              // of the accepted gradients
  StepSizes sizes_ TANDEM_GUARDED_BY(mutex_);              // since the account was taken
  std::vector<KeptSeat> seats_ TANDEM_GUARDED_BY(mutex_);  // by replica, without what the protocol records
  std::vector<GradientId> newest_ TANDEM_GUARDED_BY(mutex_);
  MakeStep elsewhere_ TANDEM_GUARDED_BY(mutex_);
  KeptRecord kept_ TANDEM_GUARDED_BY(mutex_);  // of the owner's variables, where they are kept
};

}  // namespace tandem::sync
