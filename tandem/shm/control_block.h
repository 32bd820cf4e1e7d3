// shm/control_block.h: what the ranks of a host group know of each other, in memory that all of them have mapped.
//
// Each rank writes its own RankBlock; everybody reads all of them. What was written before `posted` or `finished` was
// advanced is visible to whoever saw the count.
#pragma once
#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tandem/shm/arrival_gate.h"
#include "tandem/shm/shared_counter.h"

namespace tandem::shm {

/// Ranks of a group at most: their lifelines are passed in one message, which carries up to 253 descriptors.
inline constexpr int kMostRanks = 250;
/// Collectives that a rank may have started and not waited for.
inline constexpr std::uint64_t kDepth = 128;
/// Payloads up to this size travel in the slot of their posting. Larger slots, a page apart, fell onto the same lines
/// of the caches: 8 bytes then took 0.7 us instead of 0.3, and 4 KiB 3.3 us instead of 0.4 in the group's memory.
inline constexpr std::size_t kInlineBytes = 1024;

enum class Operation : std::uint32_t { kAllReduce, kBroadcast, kAllGather, kAllGatherEqual, kBarrier };

/// What a rank brings to a collective.
struct alignas(64) Posting {
  static constexpr std::uint64_t kInSlot = ~std::uint64_t{0};

  Operation operation{};
  std::int32_t root = 0;           // broadcast: what messages call it
  std::int64_t count = 0;          // elements
  std::array<char, 16> type{};     // of the elements, for comparison and messages; ends with a zero
  std::uint64_t offset = kInSlot;  // of the payload in the shared region
};

/// "all_reduce of 1000 x float32", "broadcast of 8 x int64 from rank 1", "barrier".
[[nodiscard]] std::string describe(const Posting& posting);
/// Whether the two belong to the same collective. Sizes in an all_gather may differ.
[[nodiscard]] bool agree(const Posting& a, const Posting& b);

/// Why a member closed its group.
enum class Cause : std::uint32_t { kAborted, kStopped, kDeadline, kMismatch, kLost, kLeft };

/// Whose deadline, in Cause::kDeadline, had passed.
enum class ClosedBy { kMe, kAnother };

/// PeerLost(`lost`) when somebody is gone, RunError for a mismatch, DeadlineExceeded for who closed the group at its
/// own deadline; else GroupAborted.
[[noreturn]] void throw_closed(Cause cause, ClosedBy by, int lost, const std::string& message);

/// What the rank that closed the group wrote about it.
struct Closing {
  Cause cause{};
  std::int32_t lost = 0;          // the rank that is gone, for kLost and kLeft
  std::array<char, 4000> text{};  // with the reports of other groups
};

// Note [Slots are free when they come round again]
// Who has completed collective t has seen all others post t, and who posts t has finished all up to t - kDepth. So
// everybody has finished t - kDepth when anybody posts t + kDepth at most, 2 * kDepth later: a posting and its slot may
// be overwritten without asking, though an inline collective ends without waiting for the slower readers.
inline constexpr std::uint64_t kSlots = 2 * kDepth;

struct alignas(64) RankBlock {
  SharedCounter posted;                    // collectives whose posting can be read
  alignas(64) SharedCounter finished;      // collectives that this rank has done its part of
  std::atomic<std::int64_t> last_sign{0};  // steady clock, nanoseconds: when it last posted or finished one
  std::atomic<bool> left{false};           // it destroyed its group, rather than died
  std::int32_t process = 0;
  cpu_set_t cores{};  // that it may run on
  Closing closing;    // to be read when the group says that this rank closed it
  alignas(64) std::array<Posting, kSlots> postings;
  alignas(64) std::array<std::array<std::byte, kInlineBytes>, kSlots> slots;

  Posting& posting(std::uint64_t ticket) { return postings[ticket % kSlots]; }
  [[nodiscard]] const Posting& posting(std::uint64_t ticket) const { return postings[ticket % kSlots]; }
  std::byte* slot(std::uint64_t ticket) { return slots[ticket % kSlots].data(); }
};

struct ControlBlock {
  static constexpr std::int32_t kOpen = -1;

  alignas(64) std::atomic<std::int32_t> closed_by{kOpen};  // the first rank that closed the group; it stays
  std::int32_t size = 0;
  ArrivalGate<kSlots> all_posted, all_finished;  // of a group that waits at gates; see Exchange

  [[nodiscard]] RankBlock& rank(int rank) { return reinterpret_cast<RankBlock*>(this + 1)[rank]; }
  [[nodiscard]] bool is_open() const { return closed_by.load(std::memory_order_seq_cst) == kOpen; }

  /// Closes the group on behalf of `rank`, whose `closing` says why, and ends every wait of every rank.
  void close(int rank);

  /// Bytes that a group of `ranks` needs.
  static std::size_t bytes(int ranks);
  /// Makes one for `ranks` ranks in zeroed memory of that size.
  static ControlBlock* construct(void* memory, int ranks);
};
static_assert(sizeof(ControlBlock) % alignof(RankBlock) == 0);

}  // namespace tandem::shm
