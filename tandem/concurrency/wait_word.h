// concurrency/wait_word.h: a 32-bit word on which threads of this process wait for a change: first spinning, then
// asleep.
//
// Made of a futex, because std::atomic::wait knows no deadline. Changing the word and waking are separate, so that a
// change that nobody sleeps for costs no system call.
//
// Threads: all. Destroy it only when nobody waits on it any more.
#pragma once
#include <atomic>
#include <cstdint>

#include "tandem/base/clock.h"
#include "tandem/concurrency/spin.h"

namespace tandem {

class WaitWord {
 public:
  explicit WaitWord(std::uint32_t value = 0) : value_(value) {}

  [[nodiscard]] std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  /// Return the value before. Whoever sees the new value sees everything written before it.
  std::uint32_t fetch_add(std::uint32_t amount) { return value_.fetch_add(amount, std::memory_order_seq_cst); }
  std::uint32_t fetch_or(std::uint32_t bits) { return value_.fetch_or(bits, std::memory_order_seq_cst); }

  /// Blocks while the word is `old`, until the deadline. Returns the word: `old` only when too late.
  std::uint32_t wait_while(std::uint32_t old, SpinBudget spin, const Deadline& deadline) {
    if (spin_until(spin, [&] { return load() != old; })) return load();
    return sleep_while(old, deadline);
  }

  /// Wakes all sleepers. Call it after a change.
  void wake_all() {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_sleepers();
  }

  /// Threads that now sleep, or are about to; those that still spin are not counted.
  [[nodiscard]] int sleepers() const { return sleepers_.load(std::memory_order_relaxed); }

 private:
  std::uint32_t sleep_while(std::uint32_t old, const Deadline& deadline);
  void wake_sleepers();

  std::atomic<std::uint32_t> value_;
  std::atomic<int> sleepers_{0};
};

}  // namespace tandem
