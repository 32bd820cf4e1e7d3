// rl/env/isolated/bell.h: how a training and a worker process wake each other: by a number in shared memory, and by a
// byte through a socket where the other side sleeps (region_layout.h).
//
// Threads: one of each side. Blocking: BellWait::until(), until its deadline or the end of the socket.
#pragma once
#include <atomic>
#include <cstdint>

#include "tandem/base/clock.h"
#include "tandem/concurrency/spin.h"

namespace tandem::rl {

/// How a wait for the other side ended. kGone: the socket has ended, or is none any more.
enum class BellOutcome { kRung, kLate, kGone };

/// Writes the number of the next request or answer, and wakes the other side if it sleeps. Never blocks; that the other
/// side is gone shows in the next wait.
void ring(std::atomic<std::uint32_t>& number, std::uint32_t value, const std::atomic<std::uint32_t>& other_sleeps,
          int socket);

/// A wait for the number `value`, which spins first and then sleeps in the socket.
struct BellWait {
  const std::atomic<std::uint32_t>& number;
  std::uint32_t value = 0;
  std::atomic<std::uint32_t>& own_sleeps;
  int socket = -1;
  SpinBudget spin = {};

  /// A number that has come wins over an end of the socket and over the deadline.
  [[nodiscard]] BellOutcome until(const Deadline& deadline) const;
};

}  // namespace tandem::rl
