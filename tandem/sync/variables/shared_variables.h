// sync/shared_variables.h: the variables of an asynchronous run: each gradient is applied when it comes, on its own.
//
// Threads, blocking, errors: as VariableService. exchange() waits only for replicas that are behind, under
// wait_for_slower.
#pragma once
#include "tandem/sync/variables/staleness_ledger.h"
#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

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
  Outcome apply(const Offer& offer, const model::FlatParameters::Gradients& gradients) TANDEM_REQUIRES(mutex_);
  void start_anew(Replica& from) override TANDEM_REQUIRES(mutex_);
  [[nodiscard]] bool has_left(int replica) const override TANDEM_REQUIRES(mutex_);
  [[nodiscard]] std::vector<int> present() const override TANDEM_REQUIRES(mutex_) { return ledger_.present(); }

  StalenessLedger ledger_ TANDEM_GUARDED_BY(mutex_);
  StepSizes sizes_ TANDEM_GUARDED_BY(mutex_);  // since the account was taken
};

}  // namespace tandem::sync
