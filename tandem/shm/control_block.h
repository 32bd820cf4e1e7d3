// shm/control_block.h: the state of a host group, in memory that all its ranks have mapped.
//
// Each rank writes its own RankBlock, and all ranks read all blocks. A rank that sees a count of `posted` or `finished`
// also sees everything that the block's owner wrote before it advanced the count. Processes of one build share the
// block, so its layout needs no version of its own (shm/meeting.cc checks the build).
//
// Threads: all, in every process of the group, as each member says.
#pragma once
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>

#include "tandem/base/check.h"
#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/cores.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"

namespace tandem::shm {

/// The most ranks of a group. Their lifelines are passed in one message, which carries up to 253 descriptors.
inline constexpr int kMostRanks = 250;
/// The most collectives that a rank may have started and not waited for.
inline constexpr std::uint64_t kDepth = 128;
/// Payloads up to this size travel in the slot of their posting. Larger slots would lie a page apart and share the same
/// lines of the caches: 8 bytes then took 0.7 us instead of 0.3, and 4 KiB took 3.3 us instead of 0.4 in the group's
/// memory.
inline constexpr std::size_t kInlineBytes = 1024;

/// A counter in shared memory that one rank advances and others wait for.
///
/// The lowest bit of the counter's word says "closed", so that a close cannot slip in between a waiter's look and its
/// sleep. Counts have 31 bits and wrap around; a waiter must not be 2^30 behind. Threads: all, in any process that has
/// mapped it. Where a counter has an owner, only the owner calls advance(). Blocking: look() for as long as its
/// patience says, and sleep() until its deadline.
class SharedCounter {
 public:
  /// kReached wins over kClosed where both hold, as a collective that all ranks completed stays completed.
  enum class Outcome { kReached, kClosed, kDeadline };

  /// A reader of the count sees all that was written before the advance().
  [[nodiscard]] std::uint32_t count() const { return word_.load(std::memory_order_acquire) >> 1; }
  [[nodiscard]] bool has_reached(std::uint32_t count) const { return reached(load(), count); }
  [[nodiscard]] bool is_closed() const { return (load() & kClosed) != 0; }

  /// Adds one. A thread that sees the new count sees everything that was written before.
  void advance() {
    word_.fetch_add(kOne, std::memory_order_seq_cst);
    wake();
  }
  /// Ends all waits, present and future, for counts that have not been reached.
  void close() {
    word_.fetch_or(kClosed, std::memory_order_seq_cst);
    wake();
  }

  /// Looks until the counter has reached `count` or is closed, or patience ends. Returns whether it is so.
  template <typename SharesCore>
  [[nodiscard]] bool look(std::uint32_t count, Patience& patience, const SharesCore& shares_core) const {
    return patience.look([&] { return is_over(load(), count); }, shares_core);
  }
  /// Sleeps until the counter has reached `count` or is closed, at most until the deadline. When `hurried` is set and
  /// wake() is called, the sleep ends as if the deadline had passed. A count that was reached wins over the other
  /// outcomes.
  [[nodiscard]] Outcome sleep(std::uint32_t count, const Deadline& deadline, const std::atomic<bool>& hurried) {
    // See Note [No wake-up is lost] in concurrency/wait_word.cc.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    std::uint32_t word = load();
    while (!is_over(word, count) && !deadline.expired() && !hurried.load()) {
      futex_wait(word_, word, deadline, FutexScope::kHost);
      word = load();
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    if (reached(word, count)) return Outcome::kReached;
    return (word & kClosed) != 0 ? Outcome::kClosed : Outcome::kDeadline;
  }
  /// Wakes the sleepers, which then look again. A waiter that is just about to sleep may miss it.
  void wake() {
    if (sleepers() > 0) futex_wake_all(word_, FutexScope::kHost);
  }

  /// The number of waiters that sleep now, or are about to. It is too high once a sleeper was killed.
  [[nodiscard]] int sleepers() const { return sleepers_.load(std::memory_order_seq_cst); }

 private:
  static constexpr std::uint32_t kClosed = 1, kOne = 2;

  [[nodiscard]] std::uint32_t load() const { return word_.load(std::memory_order_seq_cst); }
  static bool reached(std::uint32_t word, std::uint32_t count) {
    return static_cast<std::int32_t>((word & ~kClosed) - count * kOne) >= 0;
  }
  static bool is_over(std::uint32_t word, std::uint32_t count) { return (word & kClosed) != 0 || reached(word, count); }

  std::atomic<std::uint32_t> word_{0};
  std::atomic<int> sleepers_{0};
};

/// Lets ranks sleep until all of them have arrived at the same point of a collective. Collectives are numbered from 0,
/// and up to `kWindow` of them may pass at the same time.
///
/// A rank that waits for each other rank in turn is woken by many of them, only to sleep again for the next: with 64
/// ranks that arrive in random order five times on average (the 64th harmonic number). At a gate all ranks sleep on one
/// word, and the last rank to arrive wakes them. The shared count costs more than separate counts, so gates are used
/// where the ranks have no core each. Only waits on opened() block, as SharedCounter says.
template <std::uint64_t kWindow>
class ArrivalGate {
 public:
  /// Counts the calling rank at the point in collective `ticket`. Each of the `ranks` calls it once, in the order of
  /// the tickets. Returns whether it is the last rank, which opens the gate.
  bool arrive(std::uint64_t ticket, std::uint64_t ranks) {
    // All arrivals of the collective kWindow before are in the count, which is a multiple of the ranks.
    const std::uint64_t come = arrived_[ticket % kWindow].fetch_add(1, std::memory_order_seq_cst) + 1;
    if (come % ranks != 0) return false;
    opened_.advance();
    return true;
  }
  /// Counts the collectives at whose point all ranks have arrived. A count above `ticket` says that all ranks have
  /// arrived in collective `ticket`, and a reader of that count sees everything that they wrote before. The count lags
  /// while the last rank is between the two lines of arrive().
  [[nodiscard]] SharedCounter& opened() { return opened_; }
  /// Ends all waits.
  void close() { opened_.close(); }

 private:
  alignas(64) SharedCounter opened_;
  alignas(64) std::array<std::atomic<std::uint64_t>, kWindow> arrived_{};
};

enum class Operation : std::uint32_t { kAllReduce, kBroadcast, kAllGather, kAllGatherEqual, kBarrier };

/// A rank's part in a collective: the operation, and where its payload lies.
struct alignas(64) Posting {
  static constexpr std::uint64_t kInSlot = ~std::uint64_t{0};

  Operation operation{};
  std::int32_t root = 0;           // of a broadcast: the root's name in messages
  std::int64_t count = 0;          // number of elements
  std::array<char, 16> type{};     // type of the elements, for comparison and messages; ends with a zero
  std::uint64_t offset = kInSlot;  // where the payload lies in the shared region
};

/// A posting of `count` elements of type `type`, a name of at most 15 bytes.
[[nodiscard]] inline Posting posting_of(Operation operation, std::int64_t count, std::string_view type, int root = 0) {
  Posting posting{.operation = operation, .root = root, .count = count};
  TANDEM_CHECK(type.size() < posting.type.size(), type);
  std::copy(type.begin(), type.end(), posting.type.begin());
  return posting;
}
/// Returns "all_reduce of 1000 x float32", "broadcast of 8 x int64 from rank 1" or "barrier".
[[nodiscard]] inline std::string describe(const Posting& posting) {
  constexpr std::array kNames{"all_reduce", "broadcast", "all_gather", "all_gather of equal sizes", "barrier"};
  const std::string name = kNames[static_cast<std::size_t>(posting.operation)];
  if (posting.operation == Operation::kBarrier) return name;
  const std::string what = concat(name, posting.operation == Operation::kAllGatherEqual ? ", " : " of ", posting.count,
                                  " x ", posting.type.data());
  return posting.operation == Operation::kBroadcast ? concat(what, " from rank ", posting.root) : what;
}
/// Whether the two belong to the same collective. Sizes in an all_gather may differ; the root and the type count, too,
/// since they may differ when the ranks have taken different branches.
[[nodiscard]] inline bool agree(const Posting& a, const Posting& b) {
  if (a.operation != b.operation || a.root != b.root || a.type != b.type) return false;
  return a.count == b.count || a.operation == Operation::kAllGather;
}

/// Why a member closed its group.
enum class Cause : std::uint32_t { kAborted, kStopped, kDeadline, kMismatch, kLost, kLeft };

/// Which member's deadline had passed, for Cause::kDeadline.
enum class ClosedBy { kMe, kAnother };

/// Throws the error that a closed group means for this member: PeerLost(`lost`) when a member is gone, RunError for a
/// mismatch, DeadlineExceeded for the member that closed the group at its own deadline, and GroupAborted otherwise.
[[noreturn]] inline void throw_closed(Cause cause, ClosedBy by, int lost, const std::string& message) {
  switch (cause) {
    case Cause::kLost:
    case Cause::kLeft:
      throw PeerLost(lost, message);
    case Cause::kMismatch:
      throw RunError(message);
    case Cause::kDeadline:
      if (by == ClosedBy::kMe) throw DeadlineExceeded(message);
      [[fallthrough]];
    case Cause::kAborted:
    case Cause::kStopped:
      break;
  }
  throw GroupAborted(message);
}

/// Why the rank closed the group.
struct Closing {
  Cause cause{};
  std::int32_t lost = 0;          // the rank that is gone, for kLost and kLeft
  std::array<char, 4000> text{};  // the reason, with the reports of other groups
};

// Note [Slots are free when they come round again]
// A rank that has completed collective t has seen all other ranks post t. A rank that posts t has finished all
// collectives up to t - kDepth. So when any rank posts t + kDepth, all ranks have finished t - kDepth, 2 * kDepth
// collectives before. A posting and its slot may therefore be overwritten without asking, although an inline collective
// ends without waiting for the slower readers.
inline constexpr std::uint64_t kSlots = 2 * kDepth;

/// The part of the memory that one rank writes. Members that are written at different times lie on cache lines of their
/// own.
struct alignas(64) RankBlock {
  SharedCounter posted;                // collectives whose posting can be read
  LastCore core;                       // where the rank posted last, or woke up after that
  alignas(64) SharedCounter finished;  // collectives of which this rank has done its part
  // When it last posted or finished one: nanoseconds of the steady clock. Written often, and away from what others
  // read.
  alignas(64) std::atomic<std::int64_t> last_sign{0};
  std::atomic<bool> left{false};      // the rank destroyed its group and did not die
  std::array<char, 1200> why_left{};  // its reason, if it gave one: written once, before `left`
  std::int32_t process = 0;
  cpu_set_t cores{};  // the cores that the rank may run on
  double quota = 0;   // of processor time, in cores (UsableCores)
  Closing closing;    // valid when the group says that this rank closed it
  alignas(64) std::array<Posting, kSlots> postings;
  alignas(64) std::array<std::array<std::byte, kInlineBytes>, kSlots> slots;

  Posting& posting(std::uint64_t ticket) { return postings[ticket % kSlots]; }
  [[nodiscard]] const Posting& posting(std::uint64_t ticket) const { return postings[ticket % kSlots]; }
  std::byte* slot(std::uint64_t ticket) { return slots[ticket % kSlots].data(); }
};

/// The head of the shared memory. The RankBlocks of all ranks follow it.
struct ControlBlock {
  static constexpr std::int32_t kOpen = -1;

  alignas(64) std::atomic<std::int32_t> closed_by{kOpen};  // the first rank that closed the group; it stays
  std::int32_t size = 0;
  ArrivalGate<kSlots> all_posted, all_finished;  // used where ranks have no core each; see Member

  [[nodiscard]] RankBlock& rank(int rank) { return reinterpret_cast<RankBlock*>(this + 1)[rank]; }
  [[nodiscard]] bool is_open() const { return closed_by.load(std::memory_order_seq_cst) == kOpen; }

  /// Closes the group on behalf of `rank`, which has filled in its `closing`, and ends every wait of every rank. A
  /// second rank that closes the group closes the counters again: the first one may have been stopped or killed before
  /// it did. Returns whether `rank` is the first.
  bool close(int rank) {
    std::int32_t open = kOpen;
    // Only the first rank's name enters; it is set before the counters are closed, so a waiter that wakes finds the
    // reason.
    const bool is_first = closed_by.compare_exchange_strong(open, rank);
    for (int each = 0; each < size; ++each) {
      this->rank(each).posted.close();
      this->rank(each).finished.close();
    }
    all_posted.close();
    all_finished.close();
    return is_first;
  }

  /// What the ranks may use together, the same answer on all of them. The cores of all ranks count together, since
  /// ranks that are bound to one core each see only their own. Their quota of time is one for all, as the ranks of a
  /// host are in one container.
  [[nodiscard]] UsableCores usable_cores() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    UsableCores usable;
    for (int each = 0; each < size; ++each) {
      CPU_OR(&cores, &cores, &rank(each).cores);
      usable.quota = std::min(usable.quota, rank(each).quota);
    }
    usable.bound = CPU_COUNT(&cores);
    return usable;
  }

  /// The number of bytes that a group of `ranks` ranks needs.
  static std::size_t bytes(int ranks) {
    return sizeof(ControlBlock) + static_cast<std::size_t>(ranks) * sizeof(RankBlock);
  }
  /// Makes a block for `ranks` ranks in zeroed memory of that size.
  static ControlBlock* construct(void* memory, int ranks) {
    auto* control = new (memory) ControlBlock;
    control->size = ranks;
    for (int rank = 0; rank < ranks; ++rank) new (&control->rank(rank)) RankBlock;
    return control;
  }
};
static_assert(sizeof(ControlBlock) % alignof(RankBlock) == 0);

}  // namespace tandem::shm
