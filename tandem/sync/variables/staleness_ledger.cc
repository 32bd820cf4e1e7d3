#include "tandem/sync/variables/staleness_ledger.h"

#include "tandem/base/check.h"

namespace tandem::sync {

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

void StalenessLedger::pass(int replica) { ++seat(replica).steps; }

bool StalenessLedger::may_go_on(int replica) const { return behind(replica).empty(); }

// Replicas that have left hold nobody up. Without wait_for_slower nobody does.
std::vector<int> StalenessLedger::behind(int replica) const {
  std::vector<int> slower;
  if (!wait_for_slower_) return slower;
  for (int other = 0; other < static_cast<int>(seats_.size()); ++other) {
    if (!seat(other).has_left && seat(replica).steps - seat(other).steps > *wait_for_slower_) slower.push_back(other);
  }
  return slower;
}

void StalenessLedger::pulled(int replica) { seat(replica).pulled = version_; }

std::vector<int> StalenessLedger::present() const {
  std::vector<int> present;
  for (int replica = 0; replica < static_cast<int>(seats_.size()); ++replica)
    if (!seat(replica).has_left) present.push_back(replica);
  return present;
}

void StalenessLedger::leave(int replica) { seat(replica).has_left = true; }

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

}  // namespace tandem::sync
