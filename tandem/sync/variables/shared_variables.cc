#include "tandem/sync/variables/shared_variables.h"

#include <string>
#include <utility>

#include "tandem/base/text.h"

namespace tandem::sync {

SharedVariables::SharedVariables(Replica& like, const AsynchronousOptions& options)
    : VariableService(like), ledger_(like.placement().replicas, options) {
  load(like);
}

void SharedVariables::start_anew(Replica&) {
  ledger_.reset();
  sizes_ = {};
}

// A replica that rests has left as far as waits of the others go: see rest().
bool SharedVariables::has_left(int replica) const { return ledger_.has_left(replica); }

// Three parts: the gradient is applied or dropped, the replica waits for slower ones where it must, and reads. Between
// the first two the lock is free, so that others may step; the last two are under one lock, so that no update comes
// between the end of the wait and the read.
void SharedVariables::exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                               const Limits& limits, const Read& read) {
  Outcome outcome;
  {
    const MutexLock lock(mutex_);
    require_whole();
    if (gradients == nullptr)
      ledger_.pass(offer.replica);
    else
      outcome = apply(offer, *gradients);
  }
  tell_all();
  const MutexLock lock(mutex_);
  const auto who = [&]() TANDEM_REQUIRES(mutex_) {
    std::string slower;
    for (const int other : ledger_.behind(offer.replica)) slower += concat(slower.empty() ? "" : ", ", other);
    return concat("replica ", offer.replica, " waited for replica ", slower,
                  ", which is further behind than the bound on staleness allows");
  };
  wait_for([&]() TANDEM_REQUIRES(mutex_) { return ledger_.may_go_on(offer.replica); }, who, limits);
  read(outcome, home_.parameters().buffers());
  ledger_.pulled(offer.replica);
}

// A gradient that is too stale changes nothing, neither the values nor the version that staleness is counted in.
Outcome SharedVariables::apply(const Offer& offer, const model::FlatParameters::Gradients& gradients) {
  const StalenessLedger::Entry entry = ledger_.offer(offer.replica);
  if (!entry.is_applied) return {.verdict = Verdict::kDropped, .staleness = entry.staleness};
  home_.optimizer().set_learning_rate(offer.learning_rate);
  home_.optimizer().step(gradients, offer.scale, offer.lr_factor);
  const double rows = offer.tally.weight;
  sizes_.add({.steps = 1, .gradients = {1, 1, 1}, .rows = {rows, rows, rows}});
  return {.verdict = Verdict::kApplied, .staleness = entry.staleness};
}

void SharedVariables::leave(int replica) {
  {
    const MutexLock lock(mutex_);
    require_whole();
    ledger_.leave(replica);
  }
  tell_all();
}

void SharedVariables::end_rest() {
  const MutexLock lock(mutex_);
  require_whole();
  ledger_.rejoin();
}

GradientAccount SharedVariables::take_account() {
  const MutexLock lock(mutex_);
  return {.replicas = ledger_.totals(), .sizes = std::exchange(sizes_, {})};
}

}  // namespace tandem::sync
