// shm/member.h: the collectives of a host group on plain memory, seen from one rank.
//
// Payloads up to kInlineBytes travel with their posting: one wait. Larger ones are two waits: when all have posted
// where their payload lies, each rank sums an equal part of the elements and writes it to everybody. Where ranks have
// no core each, and payloads are of some MiB in all at most, the one that posts last sums them for all: the others,
// which would have to wait for a core, wait once. A payload that is not in the group's memory is copied there and back.
//
// Threads: one, but abort() and expire() may be called from any. Blocking, errors: those of Exchange; after any throw
// the group is closed for good and what the operation wrote to is garbage.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/shm/arena.h"
#include "tandem/shm/exchange.h"

namespace tandem::shm {

/// Writes to elements [begin, end) of every array the sum over all of them.
using SumArrays = void(std::span<void* const> arrays, std::int64_t begin, std::int64_t end);

/// What a payload is made of.
struct Element {
  const char* name;  // for comparison between the ranks and for messages; 15 bytes
  std::size_t bytes;
  SumArrays* sum = nullptr;  // all_reduce
};

class Member {
 public:
  explicit Member(
      Meeting meeting, Exchange::OnClose on_close = [](const std::string&) {}, Exchange::OnCall on_call = [] {});

  [[nodiscard]] int rank() const { return exchange_.rank(); }
  [[nodiscard]] int size() const { return exchange_.size(); }

  /// Zeroed memory that all ranks have mapped, for as long as the pointer lives, even beyond the group. Waits for
  /// nobody. Throws RunError when memory is short, and why the group was closed if it was.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::uint64_t bytes);

  /// Starts to replace `data` by its sum over the ranks, and returns its number. `data` is to be left alone until
  /// finish_all_reduce() has returned. Does not block. The same `count` on all ranks; up to kDepth at a time.
  std::uint64_t start_all_reduce(void* data, std::int64_t count, const Element& element);
  /// Waits for the result, in the order of the starts.
  void finish_all_reduce(std::uint64_t ticket, const Limits& limits);

  /// Replaces `data` by the root's.
  void broadcast(void* data, std::int64_t count, const Element& element, int root, const Limits& limits);

  enum class Sizes { kEqual, kMayDiffer };
  /// Calls visit(rank, data, count) with the payload of each rank, in their order. The memory is valid during the call.
  using Visit = std::function<void(int rank, const void* data, std::int64_t count)>;
  void all_gather(const void* data, std::int64_t count, const Element& element, Sizes sizes, const Visit& visit,
                  const Limits& limits);

  void barrier(const Limits& limits);

  /// Makes all operations of all ranks throw GroupAborted, now and for ever.
  void abort(const std::string& why) { exchange_.close(Cause::kAborted, why); }
  /// As if the deadline of the wait that this rank is in had passed; nothing if it is in none. To be repeated.
  void expire() { exchange_.expire(); }

 private:
  // What this rank must remember of a collective between its start and its end.
  struct Started {
    void* data = nullptr;
    std::size_t bytes = 0;
    Element element{};
    std::shared_ptr<std::byte> copy;  // in the group's memory, if `data` is not
    bool came_last = false;           // as Exchange::post() says
  };

  enum class Payload { kPost, kNone };
  std::uint64_t start(Posting posting, void* data, const Element& element, Payload payload);
  void finish(std::uint64_t ticket, const Limits& limits);
  Started& started(std::uint64_t ticket) { return started_[ticket % kDepth]; }
  std::byte* payload(int rank, std::uint64_t ticket);
  [[nodiscard]] bool all_in_slots(std::uint64_t ticket);
  void sum_slots(std::uint64_t ticket);
  void sum_my_part(std::uint64_t ticket);
  [[nodiscard]] bool is_summed_by_one(std::uint64_t ticket);
  void sum_by_one(std::uint64_t ticket, const Limits& limits);

  Exchange exchange_;
  const std::shared_ptr<Arena> arena_;
  std::array<Started, kDepth> started_;
  std::vector<std::byte> scratch_;  // the payloads of all slots
  std::vector<void*> arrays_;       // by rank
};

}  // namespace tandem::shm
