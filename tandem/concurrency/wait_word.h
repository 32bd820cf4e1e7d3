// concurrency/wait_word.h: a 32-bit word on which threads of this process wait for a change, first spinning, then
// asleep.
//
//   std::uint32_t seen = word.load();
//   seen = word.wait_while(seen, spin, deadline);   // a waiter
//   word.fetch_add(1);                              // whoever has news
//   word.wake_all();
//
// It is made of a futex, because std::atomic::wait has no deadline. Changing the word and waking are separate calls, so
// a change that no thread sleeps for costs no system call.
//
// Threads: all. Destroy it only when nobody waits on it any more. Blocking: wait_while() only, until its deadline.
#pragma once
#include <atomic>
#include <cstdint>

#include "tandem/base/clock.h"
#include "tandem/concurrency/spin.h"

namespace tandem {

class WaitWord {
 public:
  explicit WaitWord(std::uint32_t value = 0) : value_(value) {}

  /// The word now. A thread that sees a new value also sees everything that was written before the change.
  [[nodiscard]] std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  /// Adds `amount` and returns the previous value. A thread that sees the new value sees everything that was written
  /// before it.
  std::uint32_t fetch_add(std::uint32_t amount) { return value_.fetch_add(amount, std::memory_order_seq_cst); }

  /// Blocks while the word is `old`, until the deadline. Returns the word, which is `old` only when the deadline
  /// passed.
  std::uint32_t wait_while(std::uint32_t old, SpinBudget spin, const Deadline& deadline) {
    if (spin_until(spin, [&] { return load() != old; })) return load();
    return sleep_while(old, deadline);
  }

  /// Wakes all sleepers. Call it after a change.
  void wake_all() {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_sleepers();
  }

  /// The number of threads that sleep now, or are about to. Spinning threads are not counted.
  [[nodiscard]] int sleepers() const { return sleepers_.load(std::memory_order_relaxed); }

 private:
  std::uint32_t sleep_while(std::uint32_t old, const Deadline& deadline);
  void wake_sleepers();

  std::atomic<std::uint32_t> value_;
  std::atomic<int> sleepers_{0};
};

}  // namespace tandem
