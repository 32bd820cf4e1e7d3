// comm/part_exchange.h: the sum of a large vector over the members of a network group. Internal.
//
// Each member owns an equal part of the elements. Stage one: every member sends each other one that one's part of its
// vector. The owner sums what came along the tree. Stage two: it sends the sum to all. Both go in chunks, so that one
// chunk is summed while the next is on its way: a member sends and receives 2(n-1)/n times the vector.
//
// Threads: the sending thread of the links.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "tandem/base/equal_parts.h"
#include "tandem/comm/links/peer_links.h"
#include "tandem/comm/tree_reduce.h"

namespace tandem::comm {

/// One sum; made for it and gone with it. All members call begin() to end() at the same point of the same collective.
class PartExchange {
 public:
  struct Vector {
    std::byte* data = nullptr;
    std::int64_t count = 0;
    std::size_t element_bytes = 0;
    TreeReduce* sum = nullptr;
  };

  /// `scratch` is memory that it may use and grow; like the vector it must outlive the links.
  PartExchange(PeerLinks& links, std::uint64_t number, const Vector& vector, std::vector<std::byte>& scratch);

  /// Starts with what needs nobody's answer. Does not block.
  void begin();
  /// Returns when all that this member sends is on its way. `between` runs after every chunk.
  void send_all(const std::function<void()>& between);
  /// Returns when the sum is in place.
  void end();

 private:
  struct Span {
    std::int64_t begin = 0, count = 0;
  };
  // A chunk of the part of member `owner`; empty when the part has ended before.
  [[nodiscard]] Span chunk_of(int owner, std::int64_t chunk) const;
  [[nodiscard]] std::byte* scratch_of(int peer, std::int64_t chunk);
  void swap_parts(std::int64_t chunk);
  void sum_chunk(std::int64_t chunk);
  void gather_sums(std::int64_t chunk);
  void send(int peer, const Span& span);
  [[nodiscard]] std::byte* at(const Span& span) const;
  [[nodiscard]] std::size_t bytes(const Span& span) const;

  PeerLinks& links_;
  const std::uint64_t number_;  // of the collective
  const Vector vector_;
  const EqualParts parts_;
  const std::int64_t chunk_elements_, chunks_;
  std::vector<std::byte>& scratch_;             // two chunks from each member
  std::deque<std::vector<Transfer>> arriving_;  // of stage one, a chunk each
  std::vector<Transfer> others_;                // what else must have ended
};

}  // namespace tandem::comm
