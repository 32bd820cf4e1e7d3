// shm/shared_counter.h: a counter in shared memory that one rank advances and others wait for.
//
// The lowest bit of the counter's word says "closed", so that a close cannot slip in between a waiter's look and its
// sleep. Counts have 31 bits and wrap around; a waiter must not be 2^30 behind.
//
// Threads: all, in any process that has mapped it. Where a counter has an owner, only the owner calls advance().
// Blocking: spin() for its budget, and sleep() until its deadline.
#pragma once
#include <atomic>
#include <cstdint>

#include "tandem/base/clock.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"

namespace tandem::shm {

class SharedCounter {
 public:
  /// kReached wins over kClosed where both hold, as a collective that all ranks completed stays completed.
  enum class Outcome { kReached, kClosed, kDeadline };

  /// A reader of the count sees all that was written before the advance().
  [[nodiscard]] std::uint32_t count() const { return word_.load(std::memory_order_acquire) >> 1; }
  [[nodiscard]] bool has_reached(std::uint32_t count) const { return reached(load(), count); }
  [[nodiscard]] bool is_closed() const { return (load() & kClosed) != 0; }

  /// Adds one. A thread that sees the new count sees everything that was written before.
  void advance() {
    word_.fetch_add(kOne, std::memory_order_seq_cst);
    wake();
  }
  /// Ends all waits, present and future, for counts that have not been reached.
  void close() {
    word_.fetch_or(kClosed, std::memory_order_seq_cst);
    wake();
  }

  /// Spins until the counter has reached `count` or is closed, at most for the budget. Returns whether it is so.
  [[nodiscard]] bool spin(std::uint32_t count, SpinBudget budget) const {
    return spin_until(budget, [&] { return is_over(load(), count); });
  }
  /// Sleeps until the counter has reached `count` or is closed, at most until the deadline. When `hurried` is set and
  /// wake() is called, the sleep ends as if the deadline had passed. A count that was reached wins over the other
  /// outcomes.
  [[nodiscard]] Outcome sleep(std::uint32_t count, const Deadline& deadline, const std::atomic<bool>& hurried) {
    // See Note [No wake-up is lost] in concurrency/wait_word.cc.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    std::uint32_t word = load();
    while (!is_over(word, count) && !deadline.expired() && !hurried.load()) {
      futex_wait(word_, word, deadline, FutexScope::kHost);
      word = load();
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    if (reached(word, count)) return Outcome::kReached;
    return (word & kClosed) != 0 ? Outcome::kClosed : Outcome::kDeadline;
  }
  /// Wakes the sleepers, which then look again. A waiter that is just about to sleep may miss it.
  void wake() {
    if (sleepers() > 0) futex_wake_all(word_, FutexScope::kHost);
  }

  /// The number of waiters that sleep now, or are about to. It is too high once a sleeper was killed.
  [[nodiscard]] int sleepers() const { return sleepers_.load(std::memory_order_seq_cst); }

 private:
  static constexpr std::uint32_t kClosed = 1, kOne = 2;

  [[nodiscard]] std::uint32_t load() const { return word_.load(std::memory_order_seq_cst); }
  static bool reached(std::uint32_t word, std::uint32_t count) {
    return static_cast<std::int32_t>((word & ~kClosed) - count * kOne) >= 0;
  }
  static bool is_over(std::uint32_t word, std::uint32_t count) { return (word & kClosed) != 0 || reached(word, count); }

  std::atomic<std::uint32_t> word_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace tandem::shm
