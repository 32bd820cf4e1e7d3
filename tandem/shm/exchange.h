// shm/exchange.h: the order of collectives of a host group, seen from one rank: who has posted what, who has finished,
// and why it all ended.
//
// A collective is: post, wait until all have posted, work, finish, and, where others read or write this rank's memory,
// wait until all have finished. Collectives are numbered from 0; all ranks post the same ones in the same order.
//
// Threads: one, but close(), expire() and is_open() may be called from any. Blocking: the two waits, until their
// limits; they spin a little if each rank can have a core of its own, then sleep; else they sleep at a gate. Peers that
// died or left are seen at once; those that are missing at the deadline are called first if `limits` give them time to
// answer. Errors: PeerLost, DeadlineExceeded, RunError (ranks came with different collectives), GroupAborted; each with
// what every rank did last. The first one closes the group for all ranks and for ever: pending and later waits throw,
// except for what all ranks had done before.
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
  /// What ends the group other than a rank's orderly leave, and on whatever rank, is told to `on_close` once: by the
  /// thread that closes it here, or else by the watching thread, at once and whatever this rank does meanwhile.
  using OnClose = std::function<void(const std::string& why)>;
  /// Told, by the watching thread, when a rank calls this one: its deadline has passed, and it waits for this rank.
  using OnCall = std::function<void()>;
  Exchange(Meeting meeting, OnClose on_close, OnCall on_call);
  /// Leaves: what the others still wait for here will not come. Does not wait.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// What messages call a rank.
  [[nodiscard]] int name(int rank) const { return names_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::shared_ptr<Region>& region() const { return region_; }

  /// The number of the collective that post() will post next. Throws when the group is closed.
  [[nodiscard]] std::uint64_t next() const;
  /// Room for a payload of up to kInlineBytes in collective `ticket`.
  [[nodiscard]] std::byte* slot(int rank, std::uint64_t ticket) { return block(rank).slot(ticket); }
  /// Where ranks sleep at gates: whether this one came last, which is true on one of them. Else false.
  bool post(const Posting& posting);
  /// Whether ranks sleep at gates, as they have no core each. The same on all.
  [[nodiscard]] bool has_gates() const { return has_gates_; }
  /// That the ranks may run on, all together. The same on all.
  [[nodiscard]] int cores() const { return cores_; }

  /// What `rank` posted; for this rank's own, and after await_postings() for all.
  [[nodiscard]] const Posting& posting(int rank, std::uint64_t ticket) { return block(rank).posting(ticket); }
  /// Returns when all have posted the same as this rank.
  void await_postings(std::uint64_t ticket, const Limits& limits);
  /// Says that this rank has done its part. In the order of the tickets.
  void finish(std::uint64_t ticket);
  void await_finishes(std::uint64_t ticket, const Limits& limits);

  /// Ends it for all ranks. The first reason stays.
  void close(Cause cause, const std::string& why) { close(cause, rank_, why); }
  [[nodiscard]] bool is_open() const { return control_.is_open(); }
  /// As if the deadline of the wait that this rank is in had passed; nothing if it is in none. A wait that has just
  /// begun may miss it: to be repeated.
  void expire();
  /// Throws why the group was closed.
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
  void tell_closed();
  [[nodiscard]] std::string why_closed() const;
  void sign();
  [[nodiscard]] std::vector<int> missing(SharedCounter RankBlock::*counter, std::uint64_t ticket) const;

  const std::shared_ptr<Region> region_;
  ControlBlock& control_;
  const int rank_, size_;
  const std::vector<int> names_;
  const OnClose on_close_;
  std::atomic<bool> told_{false};
  const int cores_;  // that the ranks may run on
  const SpinBudget spin_;
  const bool has_gates_;  // where spinning would only keep others from their core
  std::uint64_t posted_ = 0, finished_ = 0;
  Mutex sleeping_;
  SharedCounter* sleeping_on_ TANDEM_GUARDED_BY(sleeping_) = nullptr;  // or null
  std::atomic<bool> hurried_{false};
  Mutex closing_;        // for this rank's record of why it closed the group
  LifelineWatch watch_;  // hangs up when this rank closes the group, to wake the others
};

}  // namespace tandem::shm
