// shm/exchange.h: the order of collectives of a host group, seen from one rank: which rank has posted what, which ranks
// have finished, and why the group was closed.
//
// A collective has these steps:
//   1. Each rank posts what it brings.
//   2. Each rank waits until all have posted.
//   3. Each rank does its part of the work, and says that it has finished.
//   4. Where ranks read or write each other's memory, each waits until all have finished.
// Collectives are numbered from 0 (their tickets). All ranks post the same collectives in the same order.
//
// Threads: one; close(), expire() and is_open() may be called from any.
// Blocking: the two waits, until their limits. If each rank can have a core of its own, a wait spins a little and then
// sleeps; otherwise it sleeps at a gate. A peer that died or left ends a wait at once. At the deadline the missing
// ranks are called first, if `limits` give them time to answer. Errors: PeerLost, DeadlineExceeded, RunError (ranks
// came with different collectives) and GroupAborted. Each message says what every rank did last. The first error closes
// the group for all ranks and for ever: pending and later waits throw, except for collectives that all ranks had
// completed.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/spin.h"
#include "tandem/shm/lifeline_watch.h"
#include "tandem/shm/meeting.h"

namespace tandem::shm {

class Exchange {
 public:
  /// Called once when the group is closed, on whatever rank and for any reason but a rank's orderly leave. The call
  /// comes from the thread that closes the group here, or else from the watching thread, whatever this rank does
  /// meanwhile.
  using OnClose = std::function<void(const std::string& why)>;
  /// Called by the watching thread when another rank, whose deadline has passed, waits for this one.
  using OnCall = std::function<void()>;
  Exchange(Meeting meeting, OnClose on_close, OnCall on_call);
  /// Leaves the group: the others get nothing more from this rank. Does not wait.
  ~Exchange() { block(rank_).left.store(true, std::memory_order_seq_cst); }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// The name of a rank in messages.
  [[nodiscard]] int name(int rank) const { return names_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::shared_ptr<Region>& region() const { return region_; }

  /// The number of the collective that post() will post next. Throws when the group is closed.
  [[nodiscard]] std::uint64_t next() const;
  /// Room for a payload of up to kInlineBytes in collective `ticket`.
  [[nodiscard]] std::byte* slot(int rank, std::uint64_t ticket) { return block(rank).slot(ticket); }
  /// Posts this rank's part of the next collective. Returns true on the rank that posted last, where ranks sleep at
  /// gates; otherwise returns false.
  bool post(const Posting& posting);
  /// Whether ranks sleep at gates, because they have no core each. The answer is the same on all ranks.
  [[nodiscard]] bool has_gates() const { return has_gates_; }
  /// The number of cores that all ranks together may run on. The answer is the same on all ranks.
  [[nodiscard]] int cores() const { return cores_; }

  /// The posting of `rank`: at any time for this rank, and after await_postings() for all ranks.
  [[nodiscard]] const Posting& posting(int rank, std::uint64_t ticket) { return block(rank).posting(ticket); }
  /// Returns when all ranks have posted, the same as this rank.
  void await_postings(std::uint64_t ticket, const Limits& limits);
  /// Says that this rank has done its part. Call it in the order of the tickets.
  void finish(std::uint64_t ticket);
  /// Returns when all ranks have finished.
  void await_finishes(std::uint64_t ticket, const Limits& limits);

  /// Closes the group for all ranks. The first reason stays.
  void close(Cause cause, const std::string& why) { close(cause, rank_, why); }
  [[nodiscard]] bool is_open() const { return control_.is_open(); }
  /// Makes the wait that this rank is in end as if its deadline had passed. Does nothing when the rank is in no wait. A
  /// wait that has just begun may miss it, so callers repeat the call.
  void expire();
  /// Throws the error that says why the group was closed.
  [[noreturn]] void throw_closed() const;

 private:
  using Gate = ArrivalGate<kSlots>;

  RankBlock& block(int rank) const { return control_.rank(rank); }
  void await(SharedCounter RankBlock::*counter, Gate& gate, std::uint64_t ticket, const Limits& limits);
  void sleep(SharedCounter RankBlock::*counter, SharedCounter& waited_for, std::uint64_t ticket, const Limits& limits);
  SharedCounter::Outcome sleep_and_call(SharedCounter RankBlock::*counter, SharedCounter& waited_for,
                                        std::uint64_t ticket, const Limits& limits);
  void close(Cause cause, int lost, const std::string& why);
  void on_hang_up(int peer);
  [[nodiscard]] std::string why_closed() const;
  void sign();
  [[nodiscard]] std::vector<int> missing(SharedCounter RankBlock::*counter, std::uint64_t ticket) const;

  const std::shared_ptr<Region> region_;
  ControlBlock& control_;
  const int rank_, size_;
  const std::vector<int> names_;
  const OnClose on_close_;
  std::atomic<bool> told_{false};
  const int cores_;  // how many the ranks may run on
  const SpinBudget spin_;
  const bool has_gates_;  // where spinning would only keep others from their core
  std::uint64_t posted_ = 0, finished_ = 0;
  Mutex sleeping_;
  SharedCounter* sleeping_on_ TANDEM_GUARDED_BY(sleeping_) = nullptr;  // null outside of waits
  std::atomic<bool> hurried_{false};
  Mutex closing_;        // guards this rank's record of why it closed the group
  LifelineWatch watch_;  // hangs up when this rank closes the group, to wake the others
};

}  // namespace tandem::shm
