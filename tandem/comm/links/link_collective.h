// comm/link_collective.h: one collective of a network group, from its announcement to its end. Internal.
//
// Threads: the sending thread of the links.
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

/// What a member asked for, until it takes it back.
struct LinkTask {
  Announcement announcement;
  at::Tensor tensor;                  // the caller's; for gathers, what this member gives
  int root = 0;                       // broadcast
  std::unique_ptr<c10::Event> ready;  // when the caller's stream has written it; none on the CPU
  std::vector<at::Tensor> gathered;   // by rank, on this host; at the start, the memory for it or nothing
};

/// What transfers of a collective that failed may still use: to be kept until the links are gone.
struct LinkMemory {
  at::Tensor on_cpu;  // the caller's own when that is on the CPU
  std::vector<std::byte> scratch;
};

class LinkCollective {
 public:
  /// Announces the task, which must outlive the links or be ended, as their next collective. Waits for the tensor's
  /// stream. Without `devices` what lies on one goes by way of this host.
  LinkCollective(PeerLinks& links, c10d::Backend* devices, LinkTask& task, LinkMemory& memory);
  LinkCollective(const LinkCollective&) = delete;
  LinkCollective& operator=(const LinkCollective&) = delete;

  /// Lets the payload start while the collective before this one ends, if all have announced the same by now and it is
  /// a sum of parts. Does not block, and ends nothing: what differs is found when this one's turn has come.
  void begin_early();
  /// Waits until all have announced it, and until all that this member sends is on its way. `between` runs now and
  /// then.
  void send(const std::function<void()>& between);
  /// Returns when the result is in place.
  void end();

 private:
  [[nodiscard]] const at::Tensor& on_cpu() const { return memory_.on_cpu; }
  [[nodiscard]] bool is_sum_of_parts() const;
  [[nodiscard]] const PeerMessage& message_of(int rank) const { return links_.message_of(number_, rank); }
  [[nodiscard]] std::size_t largest_payload() const;
  [[nodiscard]] PartExchange& parts();
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
  std::vector<Transfer> transfers_;
};

}  // namespace tandem::comm
