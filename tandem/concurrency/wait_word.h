// concurrency/wait_word.h: a 32-bit word on which threads of this process wait for a change, first looking, then
// asleep; and the same, asleep only, for a condition over several atomics.
//
//   std::uint32_t seen = word.load();
//   seen = word.wait_while(seen, patience, deadline);   // a waiter
//   word.fetch_add(1);                                  // whoever has news
//   word.wake_all();
//
// It is made of a futex, because std::atomic::wait has no deadline. Changing the word and waking are separate calls, so
// a change that no thread sleeps for costs no system call.
//
//   events.wait([&] { return a.load() && b.load(); }, limits);   // a waiter of an EventCount
//   a.store(true);                                                // a notifier
//   events.notify_all();
//
// Threads: all. Destroy them only when nobody waits on them any more. Blocking: wait_while() until its deadline, wait()
// until its limits.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/spin.h"

namespace tandem {

/// Who may sleep on a word: the threads of this process, or those of all processes that have mapped its memory. A wait
/// and a wake-up of different scopes do not meet.
enum class FutexScope { kProcess, kHost };

/// Sleeps in the kernel if the word is `old`, until a wake-up or the deadline. It may also return early without a
/// reason, so the caller looks at the word again: Note [No wake-up is lost] in wait_word.cc. Source: the Linux manual
/// page futex(2).
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t old, const Deadline& deadline, FutexScope scope);

/// Wakes all threads that sleep on the word.
void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope);

/// A word for the threads of this process.
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
  std::uint32_t wait_while(std::uint32_t old, Patience& patience, const Deadline& deadline) {
    if (patience.look([&] { return load() != old; })) return load();
    const std::uint32_t now = sleep_while(old, deadline);
    patience.slept();
    return now;
  }
  /// The same without a look: sleeps at once.
  std::uint32_t sleep_while(std::uint32_t old, const Deadline& deadline);

  /// Wakes all sleepers. Call it after a change.
  void wake_all() {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_sleepers();
  }

  /// The number of threads that sleep now, or are about to. Spinning threads are not counted.
  [[nodiscard]] int sleepers() const { return sleepers_.load(std::memory_order_relaxed); }

 private:
  void wake_sleepers();

  std::atomic<std::uint32_t> value_;
  std::atomic<int> sleepers_{0};  // on the word's own cache line: whoever changes the word reads it next
};

/// Costs nearly nothing while no thread sleeps: notifiers only read, so no cache line travels between them. A waiter
/// looks for a while, by a Patience of its own, and then waits here. The thread that makes the condition true calls
/// notify_all() afterwards.
class EventCount {
 public:
  /// Sleeps until `ready()` holds, which reads atomics, sequentially consistent. A condition that holds wins over a
  /// limit that has passed.
  template <typename Ready>
  [[nodiscard]] WaitOutcome wait(Ready ready, const Limits& limits) {
    return sleep(std::function<bool()>(std::ref(ready)), limits);
  }

  /// Wakes every sleeper, which then looks at its condition again. Call it after a sequentially consistent operation
  /// has made the condition true.
  void notify_all();

  /// The number of threads that sleep now, or are about to. Lets a test prove that a waiter blocks.
  [[nodiscard]] int sleepers() const { return sleepers_.load(std::memory_order_seq_cst); }

 private:
  // Returns why the sleep ended; looks at `ready` before it sleeps and after each wake-up.
  WaitOutcome sleep(const std::function<bool()>& ready, const Limits& limits);

  alignas(64) std::atomic<int> sleepers_{
      0};           // notify_all() reads it each time, so what its neighbours write stays away from it
  WaitWord epoch_;  // counts the notifications that had a sleeper
};

}  // namespace tandem
