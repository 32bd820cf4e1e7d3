#include "tandem/sync/variables/asynchronous.h"

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"
#include "tandem/concurrency/trace.h"

namespace tandem::sync {

// --- the ledger -----------------------------------------------------------------------------------------------------

StalenessLedger::StalenessLedger(int replicas, const AsynchronousOptions& options)
    : wait_for_slower_(options.wait_for_slower),
      drop_staler_(options.drop_staler),
      seats_(static_cast<std::size_t>(replicas)) {}

StalenessLedger::Entry StalenessLedger::offer(int replica) {
  Seat& it = seat(replica);
  TANDEM_CHECK(!it.has_left, "replica ", replica, " offers a gradient after it has left");
  Entry entry{.staleness = version_ - it.pulled, .is_applied = true};
  if (drop_staler_) entry.is_applied = entry.staleness <= *drop_staler_;
  ++it.steps;
  ++it.totals.offered;
  ++(entry.is_applied ? it.totals.applied : it.totals.dropped);
  // The replica's own update makes nothing staler for itself: pulled() comes before its next offer.
  if (entry.is_applied) ++version_;
  return entry;
}

// Replicas that have left hold nobody up. Without wait_for_slower nobody does.
std::vector<int> StalenessLedger::behind(int replica) const {
  std::vector<int> slower;
  const auto steps = [this](int of) { return seats_[static_cast<std::size_t>(of)].steps; };
  for (int other = 0; wait_for_slower_ && other < static_cast<int>(seats_.size()); ++other)
    if (!has_left(other) && steps(replica) - steps(other) > *wait_for_slower_) slower.push_back(other);
  return slower;
}

// Counts of steps begin at the same number for all, so that a replica that made fewer before holds nobody up now.
void StalenessLedger::rejoin() {
  for (Seat& each : seats_) each = {.steps = 0, .pulled = version_, .has_left = false, .totals = each.totals};
}

void StalenessLedger::reset() {
  version_ = 0;
  for (Seat& each : seats_) each.totals = {};
  rejoin();
}

std::vector<GradientTotals> StalenessLedger::totals() const {
  std::vector<GradientTotals> totals;
  for (const Seat& each : seats_) totals.push_back(each.totals);
  return totals;
}

// --- the variables --------------------------------------------------------------------------------------------------

SharedVariables::SharedVariables(Replica& like, const AsynchronousOptions& options)
    : VariableService(like), ledger_(like.placement().replicas, options) {
  load(like);
}

void SharedVariables::start_anew(Replica&) {
  ledger_.reset();
  sizes_ = {};
}

// Three parts: the gradient is applied or dropped, the replica waits for slower ones where it must, and reads. Between
// the first two the lock is free, so that others may step; the last two are under one lock, so that no update comes
// between the end of the wait and the read.
void SharedVariables::exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                               const Limits& limits, const Read& read) {
  StepReport report;
  {
    const MutexLock lock(mutex_);
    require_whole();
    if (gradients == nullptr)
      ledger_.pass(offer.replica);
    else
      report = apply(offer, *gradients);
  }
  tell_all();
  const MutexLock lock(mutex_);
  const auto who = [&]() TANDEM_REQUIRES(mutex_) {
    return concat("replica ", offer.replica, " waited for replica ", joined(ledger_.behind(offer.replica)),
                  ", which is further behind than the bound on staleness allows");
  };
  wait_for([&]() TANDEM_REQUIRES(mutex_) { return ledger_.may_go_on(offer.replica); }, who, limits);
  read(report, values_);
  ledger_.pulled(offer.replica);
}

// A gradient that is too stale changes nothing, neither the values nor the version that staleness is counted in.
StepReport SharedVariables::apply(const Offer& offer, const model::FlatParameters::Gradients& gradients) {
  const StalenessLedger::Entry entry = ledger_.offer(offer.replica);
  if (!entry.is_applied) return {.verdict = Verdict::kDropped, .staleness = entry.staleness};
  optimizer_.set_learning_rate(offer.learning_rate);
  optimizer_.step(gradients, offer.scale, offer.lr_factor);
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

// --- the strategy ---------------------------------------------------------------------------------------------------

Asynchronous::Asynchronous(Replica& replica, comm::Group& group, const AsynchronousOptions& options)
    : ServedStrategy(replica, group),
      options_(options),
      alone_(std::move(comm::make_local_group(1).front())),
      mean_(replica, *alone_, options.mean) {
  require_none(faults_of(options));
}

// Forms this replica's own mean, offers it, and reads the values. A step without rows offers nothing, and waits as any
// other where a bound asks for it. The division by the number of replicas is part of the scale, so it costs nothing.
StepReport Asynchronous::step(double lr_factor, const Limits& limits) {
  prepare_step(limits);
  const double weight = std::exchange(weight_, 0);
  std::optional<MeanGradient> mean;
  if (weight > 0) mean = mean_.form(lr_factor, steps(), limits);
  const double share = options_.scaling == Scaling::kByReplicas ? 1.0 / group_.size() : 1.0;
  const Offer offer{.replica = group_.rank(),
                    .scale = mean ? mean->scale * share : 0,
                    .learning_rate = replica_.optimizer().learning_rate(),
                    .lr_factor = lr_factor,
                    .tally = {.weight = weight}};
  const Clock::time_point start = Clock::now();
  const Span span("sync");
  const StepReport told = link().exchange(offer, mean ? &mean_.sums() : nullptr, limits);
  count_step();
  StepReport report = mean ? mean->report : StepReport{};
  report.verdict = told.verdict;
  report.step = steps();
  report.staleness = told.staleness;
  report.wait_seconds = seconds_since(start);
  return report;
}

}  // namespace tandem::sync
