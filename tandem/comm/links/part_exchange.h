// comm/links/part_exchange.h: the all-reduce of a large vector over the members of a network group. Internal.
//
// Each member owns an equal part of the elements. Reduce-scatter: every member sends each part of its vector to the
// part's owner, which sums the parts that it received along the tree. All-gather: the owner sends the sum to all
// members. Both stages work in chunks, so that one chunk is summed while the next is on its way. A member sends and
// receives 2(n-1)/n times the vector's bytes.
//
// Threads: the sending thread of the links. Blocking: send_all() and end(), as PeerLinks::wait(). Errors: the failure
// that closed the links.
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

/// One all-reduce. All members call begin(), send_all() and end() at the same points of the same collective.
class PartExchange {
 public:
  struct Vector {
    std::byte* data = nullptr;      // in this host's memory
    std::int64_t count = 0;         // elements
    std::size_t element_bytes = 0;  // bytes of one element
    TreeReduce* sum = nullptr;      // the sum for the elements' type
  };

  /// `scratch` is memory that the exchange may use and grow. Both `scratch` and the vector's memory must outlive the
  /// links.
  PartExchange(PeerLinks& links, std::uint64_t number, const Vector& vector, std::vector<std::byte>& scratch);

  /// Starts the transfers of the first chunk. Does not block.
  void begin();
  /// Returns when all that this member sends is on its way. `between` runs after every chunk.
  void send_all(const std::function<void()>& between);
  /// Returns when the sum is in place.
  void end();

 private:
  struct Span {
    std::int64_t begin = 0, count = 0;
  };
  // The elements of a chunk of the part of member `owner`; empty when the part ends before that chunk.
  [[nodiscard]] Span chunk_of(int owner, std::int64_t chunk) const;
  // Where a peer's elements of a chunk are received; chunk c and chunk c + 2 share the memory.
  [[nodiscard]] std::byte* scratch_of(int peer, std::int64_t chunk);
  // The three steps of a chunk: start its reduce-scatter, wait for that and sum, start its all-gather.
  void swap_parts(std::int64_t chunk);
  void sum_chunk(std::int64_t chunk);
  void gather_sums(std::int64_t chunk);
  void send(int peer, const Span& span);
  [[nodiscard]] std::byte* at(const Span& span) const;
  [[nodiscard]] std::size_t bytes(const Span& span) const;

  PeerLinks& links_;
  const std::uint64_t number_;  // the collective's
  const Vector vector_;
  const EqualParts parts_;
  const std::int64_t chunk_elements_, chunks_;
  std::vector<std::byte>& scratch_;             // room for two chunks from each member
  std::deque<std::vector<Transfer>> arriving_;  // receives of the reduce-scatter, one entry for each chunk
  std::vector<Transfer> others_;                // all other transfers, which end() waits for
};

}  // namespace tandem::comm
