// shm/arrival_gate.h: where ranks sleep until all of them have come to the same point of a collective, in shared
// memory.
//
// Who waits for each rank by itself is woken by many of them, only to sleep again for the next: with 64 ranks that come
// in any order five times on average, the 64th harmonic number. Here all sleep on one word, and who comes last wakes
// them. Worth its shared count where ranks wait for cores anyway.
//
// Threads: all, in any process that has mapped it. Nothing blocks; opened() does, as SharedCounter says.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "tandem/shm/shared_counter.h"

namespace tandem::shm {

/// Of collectives that are numbered from 0, of which up to `kWindow` may be passing at a time.
template <std::uint64_t kWindow>
class ArrivalGate {
 public:
  /// A rank has come to the point in collective `ticket`. Each of the `ranks` says so once, in the order of tickets.
  /// Whether it is the last of them, which opens the gate.
  bool arrive(std::uint64_t ticket, std::uint64_t ranks) {
    // Whoever comes round again finds a multiple of the ranks.
    const std::uint64_t come = arrived_[ticket % kWindow].fetch_add(1, std::memory_order_seq_cst) + 1;
    if (come % ranks != 0) return false;
    opened_.advance();
    return true;
  }
  /// Counts the collectives at whose point all ranks have come: above `ticket`, all have in that one, and who sees it
  /// sees what they wrote before. It lags behind for as long as the last rank is between the two lines of arrive().
  [[nodiscard]] SharedCounter& opened() { return opened_; }
  /// Ends all waits.
  void close() { opened_.close(); }

 private:
  alignas(64) SharedCounter opened_;
  alignas(64) std::array<std::atomic<std::uint64_t>, kWindow> arrived_{};
};

}  // namespace tandem::shm
