// comm/links/link_collective.h: runs one collective of a network group, from its announcement to its end. Internal.
//
// Calls come in this order: the constructor announces; begin_early(), optional; send(); end(). The next collective of
// the same links may be announced and begun between send() and end().
//
// Threads: the sending thread of the links. Blocking: send() and end(), as PeerLinks::await_all() and
// PeerLinks::wait(). Errors: the failure that closed the links.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "tandem/base/equal_parts.h"
#include "tandem/comm/links/peer_links.h"
#include "tandem/comm/tree_reduce.h"

namespace tandem::comm {

/// A collective that the member started, with its result, until the member has waited for it.
struct LinkTask {
  Announcement announcement;
  at::Tensor tensor;                  // the caller's; for gathers, what this member gives
  int root = 0;                       // broadcast
  std::unique_ptr<c10::Event> ready;  // recorded after the caller's stream wrote `tensor`; null on the CPU
  std::vector<at::Tensor> gathered;   // result of a gather, by rank; at the start, the memory for it, or empty
};

/// Memory that transfers of a failed collective may still read and write: it must outlive the links.
struct LinkMemory {
  at::Tensor on_cpu;  // the caller's tensor, or its copy on the CPU
  std::vector<std::byte> scratch;
};

/// The all-reduce of a large vector. Each member owns an equal part of the elements. Reduce-scatter: every member sends
/// each part of its vector to the part's owner, which sums the parts that it received along the tree. All-gather: the
/// owner sends the sum to all members. Both stages work in chunks, so that one chunk is summed while the next is on its
/// way. A member sends and receives 2(n-1)/n times the vector's bytes. All members call begin(), send_all() and end()
/// at the same points of the same collective.
class PartExchange {
 public:
  /// `flat` lies in this host's memory; `scratch` is memory that the exchange may use and grow. Both must outlive the
  /// links.
  PartExchange(PeerLinks& links, std::uint64_t number, const at::Tensor& flat, std::vector<std::byte>& scratch);

  /// Starts the transfers of the first chunk. Does not block.
  void begin() { swap_parts(0); }
  /// Returns when all that this member sends is on its way. `between` runs after every chunk.
  void send_all(const std::function<void()>& between);
  /// Returns when the sum is in place.
  void end() {
    for (const Transfer& transfer : others_) links_.wait(transfer);
  }

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
  void send(int peer, const Span& span) {
    if (span.count > 0) others_.push_back(links_.send(number_, peer, at(span), bytes(span)));
  }
  [[nodiscard]] std::byte* at(const Span& span) const { return data_ + bytes({0, span.begin}); }
  [[nodiscard]] std::size_t bytes(const Span& span) const {
    return static_cast<std::size_t>(span.count) * element_bytes_;
  }

  PeerLinks& links_;
  const std::uint64_t number_;  // the collective's
  std::byte* const data_;
  const std::size_t element_bytes_;
  TreeReduce* const sum_;  // for the elements' type
  const EqualParts parts_;
  const std::int64_t chunk_elements_, chunks_;
  std::vector<std::byte>& scratch_;             // room for two chunks from each member
  std::deque<std::vector<Transfer>> arriving_;  // receives of the reduce-scatter, one entry for each chunk
  std::vector<Transfer> others_;                // all other transfers, which end() waits for
};

class LinkCollective {
 public:
  /// Announces the task as the links' next collective. The task lives until end() has returned, or longer than the
  /// links. Waits for the tensor's stream. `devices` passes large payloads between devices; if it is null, they travel
  /// through this host's memory.
  LinkCollective(PeerLinks& links, c10d::Backend* devices, LinkTask& task, LinkMemory& memory);
  LinkCollective(const LinkCollective&) = delete;
  LinkCollective& operator=(const LinkCollective&) = delete;

  /// Starts to send the payload while the collective before this one ends, if this is a sum of parts and all members
  /// have announced the same by now. Does not block. Does not report disagreement: send() does.
  void begin_early();
  /// Waits until all members have announced the collective, and until all that this member sends is on its way. Calls
  /// `between` after each chunk, so that the caller can announce the next collective.
  void send(const std::function<void()>& between);
  /// Returns when the result is in place.
  void end();

 private:
  [[nodiscard]] const at::Tensor& on_cpu() const { return memory_.on_cpu; }
  // Whether this is an all-reduce that is too large to travel in the announcement, through the host's memory.
  [[nodiscard]] bool is_sum_of_parts() const;
  [[nodiscard]] const PeerMessage& message_of(int rank) const { return links_.message_of(number_, rank); }
  // The ways to pass the payload, among which send() chooses. pass_on_device() completes the collective.
  bool pass_on_device();
  void sum_messages();
  void take_from(int root);
  void gather();
  void send_to_all();

  PeerLinks& links_;
  c10d::Backend* const devices_;
  LinkTask& task_;
  LinkMemory& memory_;
  std::uint64_t number_ = 0;
  std::optional<PartExchange> parts_;  // once its payload has started
  std::vector<Transfer> transfers_;    // those that end() waits for
};

}  // namespace tandem::comm
