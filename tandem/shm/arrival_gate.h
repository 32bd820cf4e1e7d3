// shm/arrival_gate.h: lets ranks sleep, in shared memory, until all of them have arrived at the same point of a
// collective.
//
// A rank that waits for each other rank in turn is woken by many of them, only to sleep again for the next. With 64
// ranks that arrive in random order this happens five times on average (the 64th harmonic number). At a gate all ranks
// sleep on one word, and the last rank to arrive wakes them. The shared count costs more than separate counts, so gates
// are used where the ranks have no core each.
//
// Threads: all, in any process that has mapped it. Only waits on opened() block, as SharedCounter says.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "tandem/shm/shared_counter.h"

namespace tandem::shm {

/// A gate for collectives that are numbered from 0. Up to `kWindow` of them may pass at the same time.
template <std::uint64_t kWindow>
class ArrivalGate {
 public:
  /// Counts the calling rank at the point in collective `ticket`. Each of the `ranks` calls it once, in the order of
  /// the tickets. Returns whether it is the last rank, which opens the gate.
  bool arrive(std::uint64_t ticket, std::uint64_t ranks) {
    // All arrivals of the collective kWindow before are in the count, which is a multiple of the ranks.
    const std::uint64_t come = arrived_[ticket % kWindow].fetch_add(1, std::memory_order_seq_cst) + 1;
    if (come % ranks != 0) return false;
    opened_.advance();
    return true;
  }
  /// Counts the collectives at whose point all ranks have arrived. A count above `ticket` says that all ranks have
  /// arrived in collective `ticket`, and a reader of that count sees everything that they wrote before. The count lags
  /// while the last rank is between the two lines of arrive().
  [[nodiscard]] SharedCounter& opened() { return opened_; }
  /// Ends all waits.
  void close() { opened_.close(); }

 private:
  alignas(64) SharedCounter opened_;
  alignas(64) std::array<std::atomic<std::uint64_t>, kWindow> arrived_{};
};

}  // namespace tandem::shm
