// shm/member.h: the collectives of a host group on plain memory, seen from one rank.
//
// A collective has these steps:
//   1. Each rank posts what it brings.
//   2. Each rank waits until all have posted.
//   3. Each rank does its part of the work, and says that it has finished.
//   4. Where ranks read or write each other's memory, each waits until all have finished.
// Collectives are numbered from 0 (their tickets). All ranks post the same collectives in the same order.
//
// There are three ways to sum:
//   - A payload of up to kInlineBytes travels with its posting. Each rank sums all payloads itself, after one wait.
//   - For larger payloads each rank sums an equal part of the elements and writes the sums to all ranks. This takes two
//     waits: until all have posted where their payload lies, and until all have written.
//   - Where ranks have no core each, and the payloads are a few MiB in all, the rank that posts last sums everything.
//     The others would have to wait for a core anyway, and so wait only once.
// All ways add along the same tree over the ranks and give the same bits. A payload outside of the group's memory is
// copied there and back.
//
// Threads: one; abort() and expire() may be called from any.
// Blocking: an operation waits for the other ranks until its limits. A wait looks a little and then sleeps
// (concurrency/spin.h): for each other rank in turn, or at a gate if there is no core for each rank. A peer that died
// or left ends a wait at once. At the deadline the missing ranks are called first, if `limits` give them time to
// answer. Errors: PeerLost, DeadlineExceeded, RunError (ranks came with different collectives) and GroupAborted. Each
// message says what every rank did last. The first error closes the group for all ranks and for ever: pending and later
// waits throw, except for collectives that all ranks had completed. The memory that the operation wrote to then holds
// garbage.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/spin.h"
#include "tandem/shm/lifeline_watch.h"
#include "tandem/shm/meeting.h"
#include "tandem/shm/region.h"

namespace tandem::shm {

/// Writes the sum over all arrays to elements [begin, end) of every array.
using SumArrays = void(std::span<void* const> arrays, std::int64_t begin, std::int64_t end);

/// The type of a payload's elements. `name` and `sum` outlive every operation with them: they are literals and
/// functions.
struct Element {
  const char* name;  // for comparison between the ranks and for messages; at most 15 bytes
  std::size_t bytes;
  SumArrays* sum = nullptr;  // needed for all_reduce only
};

class Member {
 public:
  /// Called once when the group is closed, on whatever rank and for any reason but a rank's orderly leave. The call
  /// comes from the thread that closes the group here, or else from the watching thread, whatever this rank does
  /// meanwhile.
  using OnClose = std::function<void(const std::string& why)>;
  /// Called by the watching thread when another rank, whose deadline has passed, waits for this one.
  using OnCall = std::function<void()>;
  /// The callbacks must not call back into this member except abort() and expire().
  explicit Member(
      Meeting meeting, OnClose on_close = [](const std::string&) {}, OnCall on_call = [] {});
  /// Leaves the group: the others get nothing more from this rank. Does not wait.
  ~Member() { block(rank_).left.store(true, std::memory_order_seq_cst); }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Returns zeroed memory that all ranks have mapped. It lasts as long as the pointer, even beyond the group. Waits
  /// for nobody. Throws RunError when memory is short; throws the group's error when the group is closed.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::uint64_t bytes);

  /// Starts to replace `data` by its sum over the ranks, and returns the ticket of the operation. The caller leaves
  /// `data` alone until finish_all_reduce() has returned. `count` is the number of elements, the same on all ranks. Up
  /// to kDepth operations may be under way. Does not block.
  std::uint64_t start_all_reduce(void* data, std::int64_t count, const Element& element);
  /// Waits for the result. Call it in the order of the starts.
  void finish_all_reduce(std::uint64_t ticket, const Limits& limits);

  /// Replaces `data` on all ranks by the data of rank `root`. `count` and `element` are the same on all ranks. Blocks
  /// until this rank's part is done.
  void broadcast(void* data, std::int64_t count, const Element& element, int root, const Limits& limits);

  /// kEqual makes ranks with another count an error; kMayDiffer lets each rank give as much as it has.
  enum class Sizes { kEqual, kMayDiffer };
  /// Calls visit(rank, data, count) with the payload of each rank, in the order of the ranks. The memory is valid
  /// during the call.
  using Visit = std::function<void(int rank, const void* data, std::int64_t count)>;
  void all_gather(const void* data, std::int64_t count, const Element& element, Sizes sizes, const Visit& visit,
                  const Limits& limits);

  /// Returns when all ranks have come to it.
  void barrier(const Limits& limits);

  /// Makes all operations of all ranks throw GroupAborted, now and for ever, unless the group is closed. Returns
  /// whether this call closed it.
  bool abort(const std::string& why) { return close(Cause::kAborted, rank_, why); }
  /// Leaves the group, as the destructor does, and says why: ranks that still need this one throw PeerLost with it.
  /// Returns whether the group was open.
  bool fail(const std::string& why);
  /// Makes the wait that this rank is in end as if its deadline had passed. Does nothing when the rank is in no wait. A
  /// wait that has just begun may miss it, so callers repeat the call.
  void expire();

 private:
  // This rank's notes about a collective between its start and its end.
  struct Started {
    void* data = nullptr;
    std::size_t bytes = 0;
    Element element{};
    std::shared_ptr<std::byte> copy;  // the payload in the group's memory, if `data` lies elsewhere
    bool came_last = false;           // whether this rank posted last, where ranks sleep at gates
  };

  // kNone posts no memory: the rank only reads, or there is nothing to move.
  enum class Payload { kPost, kNone };
  std::uint64_t start(Posting posting, void* data, const Element& element, Payload payload);
  void finish(std::uint64_t ticket, const Limits& limits);
  Started& started(std::uint64_t ticket) { return started_[ticket % kDepth]; }
  // The address at which this process sees the payload of `rank`: in its slot, or in its arena.
  std::byte* payload(int rank, std::uint64_t ticket);
  [[nodiscard]] bool all_in_slots(std::uint64_t ticket);
  void sum_slots(std::uint64_t ticket);
  void sum_my_part(std::uint64_t ticket);
  [[nodiscard]] bool is_summed_by_one(std::uint64_t ticket);
  void sum_by_one(std::uint64_t ticket, const Limits& limits);

  // --- the steps of a collective ---
  using Gate = ArrivalGate<kSlots>;
  RankBlock& block(int rank) const { return control_.rank(rank); }
  // The name of a rank in messages.
  [[nodiscard]] int name(int rank) const { return names_[static_cast<std::size_t>(rank)]; }
  // The posting of `rank`: at any time for this rank, and after await_postings() for all ranks.
  [[nodiscard]] const Posting& posting(int rank, std::uint64_t ticket) const { return block(rank).posting(ticket); }
  // The number of the collective that post() will post next. Throws when the group is closed.
  [[nodiscard]] std::uint64_t next() const;
  // Posts this rank's part of the next collective. Returns true on the rank that posted last, where ranks sleep at
  // gates; otherwise returns false.
  bool post(const Posting& posting);
  // Returns when all ranks have posted, the same as this rank.
  void await_postings(std::uint64_t ticket, const Limits& limits);
  // Says that this rank has done its part, in the order of the tickets; and returns when all ranks have said so.
  void say_finished(std::uint64_t ticket);
  void await_finishes(std::uint64_t ticket, const Limits& limits) {
    await(&RankBlock::finished, control_.all_finished, ticket, limits);
  }
  void await(SharedCounter RankBlock::*counter, Gate& gate, std::uint64_t ticket, const Limits& limits);
  void sleep(SharedCounter RankBlock::*counter, SharedCounter& waited_for, std::uint64_t ticket, const Limits& limits);
  SharedCounter::Outcome sleep_and_call(SharedCounter RankBlock::*counter, SharedCounter& waited_for,
                                        std::uint64_t ticket, const Limits& limits);
  [[nodiscard]] std::vector<int> missing(SharedCounter RankBlock::*counter, std::uint64_t ticket) const;
  void sign();
  // --- the end of the group: the first reason stays ---
  bool close(Cause cause, int lost, const std::string& why);
  void on_hang_up(int peer);
  [[nodiscard]] std::string why_closed() const;
  [[noreturn]] void throw_closed() const;

  const std::shared_ptr<Region> region_;
  ControlBlock& control_;
  const int rank_, size_;
  const std::vector<int> names_;
  const OnClose on_close_;
  std::atomic<bool> told_{false};
  const UsableCores cores_;  // of all ranks together, the same on each
  const bool has_gates_;     // on all ranks: where they have no core each
  Patience patience_;        // of the one thread that waits
  std::uint64_t posted_ = 0, finished_ = 0;
  Mutex sleeping_;
  SharedCounter* sleeping_on_ TANDEM_GUARDED_BY(sleeping_) = nullptr;  // null outside of waits
  std::atomic<bool> hurried_{false};
  Mutex closing_;  // guards this rank's record of why it closed the group
  // The arena gives out this rank's part of the region; its allocations keep it alive.
  const std::shared_ptr<Arena> arena_;
  std::array<Started, kDepth> started_;
  std::vector<std::byte> scratch_;  // copies of the payloads of all slots
  std::vector<void*> arrays_;       // where the payloads lie, by rank
  LifelineWatch watch_;             // hangs up when this rank closes the group, to wake the others; last
};

}  // namespace tandem::shm
