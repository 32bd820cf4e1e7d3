// comm/links/peer_record.h: the data that a member keeps about each member of its group, itself among them:
// announcements that have not been read, and what errors report. Internal.
//
// Threads: caller-locks.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "tandem/base/clock.h"
#include "tandem/comm/links/peer_message.h"

namespace tandem::comm {

/// The record of one member.
struct PeerRecord {
  std::string name;  // "rank 1 (process 77 on gpu-a)"
  bool has_left = false;
  std::deque<std::unique_ptr<PeerMessage>> inbox;  // announcements that await_all() has not taken yet

  // Notes that the member has begun a collective; the last few are kept.
  void begins(std::uint64_t number, const Announcement& announcement) {
    constexpr std::size_t kRemembered = 4;
    last_sign = Clock::now();
    begun.emplace_back(number, announcement);
    if (begun.size() > kRemembered) begun.pop_front();
  }

  // For errors: the last sign of life, and the last few collectives that the member began, with their numbers.
  Clock::time_point last_sign = Clock::now();  // when it last began a collective or left; at first, when it connected
  std::deque<std::pair<std::uint64_t, Announcement>> begun;
};

/// "rank 1 (process 77 on gpu-a): last sign of life 0.3 s ago, began last #4 barrier, #5 all_reduce of 8 x Float".
[[nodiscard]] std::string describe(const PeerRecord& record);

}  // namespace tandem::comm
