// sync/staleness_ledger.h: which replica has seen which version of the shared variables, and which may go on.
//
// A version is counted up by every update that is applied. A gradient's staleness is the number of updates by others
// between the parameters it was made with and those it meets.
//
// The ledger counts; it has no tensors. The variables ask it, under their lock, whether a gradient is to be applied and
// whether a replica has to wait, and tell it when a replica has read them.
//
// Threads: caller-locks. Nothing here waits.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/sync/gradient_account.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

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
  void pass(int replica);
  /// Whether the replica may begin its next step now.
  [[nodiscard]] bool may_go_on(int replica) const;
  /// The replicas that keep this one from going on.
  [[nodiscard]] std::vector<int> behind(int replica) const;
  /// The replica has read the variables.
  void pulled(int replica);
  /// Nobody waits for the replica any more, until rejoin() or reset().
  void leave(int replica);
  [[nodiscard]] bool has_left(int replica) const { return seat(replica).has_left; }
  [[nodiscard]] std::vector<int> present() const;
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
  [[nodiscard]] const Seat& seat(int replica) const { return seats_[static_cast<std::size_t>(replica)]; }

  const std::optional<std::int64_t> wait_for_slower_, drop_staler_;
  std::vector<Seat> seats_;
  std::int64_t version_ = 0;
};

}  // namespace tandem::sync
