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
#include <functional>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "tandem/comm/links/part_exchange.h"
#include "tandem/comm/links/peer_links.h"

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
  [[nodiscard]] std::size_t largest_payload() const;
  [[nodiscard]] PartExchange& parts();
  // Pass the payload: pass() chooses among the others, except for pass_on_device(), which completes the collective.
  void pass(const std::function<void()>& between);
  void pass_on_device();
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
