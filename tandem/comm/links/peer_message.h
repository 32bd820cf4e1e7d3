// comm/peer_message.h: what members of a network group send each other ahead of large payloads. Internal.
//
// A message announces a collective, with its payload if that is small, asks whether the other waits for somebody
// itself, or says why its sender closed the group. Only the part that is used travels. All members run the same build
// on machines of the same byte order.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tandem/base/text.h"
#include "tandem/shm/control_block.h"

namespace tandem::comm {

/// Payloads up to this size travel in the message.
inline constexpr std::size_t kInlinePayload = 4096;

/// A collective as its members announce it: the posting of the host groups, and what they need not compare.
struct Announcement {
  shm::Posting posting;
  std::int64_t row = 1;    // all_gather: elements in each entry of the first dimension
  bool by_device = false;  // large payloads go from device to device
};

inline std::string describe(const Announcement& it) {
  const std::string text = concat(shm::describe(it.posting), it.by_device ? " on devices" : "");
  return it.posting.operation == shm::Operation::kAllGather ? concat(text, " in rows of ", it.row) : text;
}
inline bool agree(const Announcement& a, const Announcement& b) {
  return shm::agree(a.posting, b.posting) && a.row == b.row && a.by_device == b.by_device;
}

struct PeerMessage {
  enum class Kind : std::uint32_t { kCollective, kQuestion, kFailure, kLeave };

  Kind kind{};
  std::uint32_t bytes = 0;   // of the payload
  std::uint64_t number = 0;  // of the collective; kLeave: how many of them its sender has finished
  Announcement announcement{};
  shm::Cause cause{};     // kFailure: why, with a text as payload
  std::int32_t lost = 0;  // kFailure with Cause::kLost: the rank that is gone
  std::array<std::byte, kInlinePayload> payload;

  [[nodiscard]] std::size_t used() const { return offsetof(PeerMessage, payload) + bytes; }
};
static_assert(std::is_trivially_copyable_v<PeerMessage>);

}  // namespace tandem::comm
