// shm/member.h: the collectives of a host group on plain memory, seen from one rank.
//
// There are three ways to sum:
//   - A payload of up to kInlineBytes travels with its posting. Each rank sums all payloads itself, after one wait.
//   - For larger payloads each rank sums an equal part of the elements and writes the sums to all ranks. This takes two
//     waits: until all have posted where their payload lies, and until all have written.
//   - Where ranks have no core each, and the payloads are a few MiB in all, the rank that posts last sums everything.
//   The
//     others would have to wait for a core anyway, and so wait only once.
// All ways add along the same tree over the ranks and give the same bits. A payload outside of the group's memory is
// copied there and back.
//
// Threads: one; abort() and expire() may be called from any. Blocking and errors: those of Exchange. After an exception
// the group is closed for good, and the memory that the operation wrote to holds garbage.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/shm/exchange.h"
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
  /// The callbacks run on the threads that Exchange names, and must not call back into this member except abort() and
  /// expire().
  explicit Member(
      Meeting meeting, Exchange::OnClose on_close = [](const std::string&) {}, Exchange::OnCall on_call = [] {});

  [[nodiscard]] int rank() const { return exchange_.rank(); }
  [[nodiscard]] int size() const { return exchange_.size(); }

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

  /// Makes all operations of all ranks throw GroupAborted, now and for ever.
  void abort(const std::string& why) { exchange_.close(Cause::kAborted, why); }
  /// Makes the wait that this rank is in end as if its deadline had passed. See Exchange::expire().
  void expire() { exchange_.expire(); }

 private:
  // This rank's notes about a collective between its start and its end.
  struct Started {
    void* data = nullptr;
    std::size_t bytes = 0;
    Element element{};
    std::shared_ptr<std::byte> copy;  // the payload in the group's memory, if `data` lies elsewhere
    bool came_last = false;           // what Exchange::post() returned
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

  Exchange exchange_;
  // The arena gives out this rank's part of the region; its allocations keep it alive.
  const std::shared_ptr<Arena> arena_;
  std::array<Started, kDepth> started_;
  std::vector<std::byte> scratch_;  // copies of the payloads of all slots
  std::vector<void*> arrays_;       // where the payloads lie, by rank
};

}  // namespace tandem::shm
