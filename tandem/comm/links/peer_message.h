// comm/links/peer_message.h: the messages that members of a network group send each other ahead of large payloads, and
// what each remembers of them. Internal to comm/links.
//
// A message announces a collective, with its payload if that is small; or asks whether the receiver only waits itself;
// or says what closed the group, or why the sender leaves. The struct travels as it lies in memory, up to the end of
// the payload that is used: all members run the same build on machines of the same byte order.
//
// Threads: values; a PeerRecord is caller-locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iomanip>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

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

/// One message. Nothing in it may be used before is_sound().
struct PeerMessage {
  // kCollective announces a collective; kQuestion is Group::on_question(); the others are a sender's last message.
  enum class Kind : std::uint32_t { kCollective, kQuestion, kFailure, kLeave };

  Kind kind{};
  std::uint32_t bytes = 0;   // the size of the payload
  std::uint64_t number = 0;  // the collective's; for kLeave, how many collectives the sender has finished
  Announcement announcement{};
  shm::Cause cause{};     // kFailure: the kind of failure; the payload is its text
  std::int32_t by = 0;    // kFailure: the rank that closed the group, which need not be the sender
  std::int32_t lost = 0;  // kFailure with Cause::kLost: the rank that is gone
  std::array<std::byte, kInlinePayload> payload;

  /// The bytes that travel.
  [[nodiscard]] std::size_t used() const { return offsetof(PeerMessage, payload) + bytes; }
};
static_assert(std::is_trivially_copyable_v<PeerMessage>);

/// Whether what came can be a message of a group of so many members: its numbers name something, and its texts end. The
/// rest of a message is only read if it is.
[[nodiscard]] inline bool is_sound(const PeerMessage& it, int members) {
  const auto is_member = [members](std::int32_t rank) { return rank >= 0 && rank < members; };
  const shm::Posting& posting = it.announcement.posting;
  std::uint8_t by_device = 0;  // as it came: a bool that is neither 0 nor 1 may not be read
  std::memcpy(&by_device, &it.announcement.by_device, sizeof(by_device));
  return it.kind <= PeerMessage::Kind::kLeave && it.bytes <= kInlinePayload &&
         posting.operation <= shm::Operation::kBarrier && posting.count >= 0 && posting.type.back() == 0 &&
         it.announcement.row >= 0 && by_device <= 1 && it.cause <= shm::Cause::kLeft && is_member(it.by) &&
         is_member(it.lost);
}

/// The data that a member keeps about each member of its group, itself among them.
struct PeerRecord {
  std::string name;  // "rank 1 (process 77 on gpu-a)"
  bool has_left = false;
  std::string why;                                 // it has left: "left the group", or what it said
  std::deque<std::unique_ptr<PeerMessage>> inbox;  // announcements that await_all() has not taken yet

  // For errors: the last sign of life, and the last few collectives that the member began, with their numbers.
  Clock::time_point last_sign = Clock::now();  // when it last began a collective or left; at first, when it connected
  std::deque<std::pair<std::uint64_t, Announcement>> begun;

  // Notes that the member has begun a collective.
  void begins(std::uint64_t number, const Announcement& announcement) {
    constexpr std::size_t kRemembered = 4;
    last_sign = Clock::now();
    begun.emplace_back(number, announcement);
    if (begun.size() > kRemembered) begun.pop_front();
  }
};

/// "rank 1 (process 77 on gpu-a): last sign of life 0.3 s ago, began last #4 barrier, #5 all_reduce of 8 x Float".
[[nodiscard]] inline std::string describe(const PeerRecord& record) {
  std::string text = concat(record.name, ": last sign of life ", std::fixed, std::setprecision(1),
                            seconds_since(record.last_sign), " s ago, ", record.has_left ? "left, " : "", "began last");
  for (const auto& [number, announcement] : record.begun)
    text += concat(number == record.begun.front().first ? " #" : ", #", number, ' ', describe(announcement));
  return record.begun.empty() ? text + " none" : text;
}

}  // namespace tandem::comm
