// comm/links/peer_message.h: the messages that members of a network group send each other ahead of large payloads.
// Internal.
//
// A message announces a collective, with its payload if that is small; or asks whether the receiver only waits itself;
// or says why the sender closed the group, or that it leaves. The struct travels as it lies in memory, up to the end of
// the payload that is used: all members run the same build on machines of the same byte order.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "tandem/base/text.h"
#include "tandem/shm/control_block.h"

namespace tandem::comm {

/// Payloads of up to this many bytes travel in the message.
inline constexpr std::size_t kInlinePayload = 4096;

/// A collective as its members announce it: the same posting as in host groups, and what only network groups compare.
struct Announcement {
  shm::Posting posting;
  std::int64_t row = 1;    // all_gather: elements in each entry of the first dimension
  bool by_device = false;  // large payloads go from device to device
};

/// Returns "all_reduce of 8 x Float", say, for error messages.
inline std::string describe(const Announcement& it) {
  const std::string text = concat(shm::describe(it.posting), it.by_device ? " on devices" : "");
  return it.posting.operation == shm::Operation::kAllGather ? concat(text, " in rows of ", it.row) : text;
}
/// Whether two members call the same collective.
inline bool agree(const Announcement& a, const Announcement& b) {
  return shm::agree(a.posting, b.posting) && a.row == b.row && a.by_device == b.by_device;
}

/// One message. A receiver must not trust more of the payload than `bytes`, which is at most kInlinePayload.
struct PeerMessage {
  // kCollective announces a collective; kQuestion is Group::on_question(); the others are a sender's last message.
  enum class Kind : std::uint32_t { kCollective, kQuestion, kFailure, kLeave };

  Kind kind{};
  std::uint32_t bytes = 0;   // the size of the payload
  std::uint64_t number = 0;  // the collective's; for kLeave, how many collectives the sender has finished
  Announcement announcement{};
  shm::Cause cause{};     // kFailure: the kind of failure; the payload is its text
  std::int32_t lost = 0;  // kFailure with Cause::kLost: the rank that is gone
  std::array<std::byte, kInlinePayload> payload;

  /// The bytes that travel.
  [[nodiscard]] std::size_t used() const { return offsetof(PeerMessage, payload) + bytes; }
};
static_assert(std::is_trivially_copyable_v<PeerMessage>);

}  // namespace tandem::comm
