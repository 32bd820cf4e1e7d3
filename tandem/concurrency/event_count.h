// concurrency/event_count.h: lets threads sleep until a condition over several atomics holds. It costs nearly nothing
// while no thread sleeps.
//
//   events.wait([&] { return a.load() && b.load(); }, limits, spin);   // a waiter
//   a.store(true);                                                      // a notifier
//   events.notify_all();
//
// A waiter first spins, since the event is usually a microsecond away, and then sleeps. The thread that makes the
// condition true calls notify_all() afterwards. Where the condition is about one word, use WaitWord alone.
//
// Threads: all members may be called from any thread of one process. Destroy it only when nobody waits on it any more.
// Blocking: wait() only, until its limits.
#pragma once
#include <atomic>
#include <functional>

#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"

namespace tandem {

class EventCount {
 public:
  /// Waits until `ready()` holds, spinning first for `spin`. `ready` reads atomics and may be called often. A condition
  /// that holds wins over a limit that has passed.
  template <typename Ready>
  [[nodiscard]] WaitOutcome wait(Ready ready, const Limits& limits, SpinBudget spin) {
    if (spin_until(spin, ready)) return WaitOutcome::kReady;
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

  alignas(64) std::atomic<int> sleepers_{0};  // notify_all() reads it each time, so it has a cache line of its own
  WaitWord epoch_;                            // counts the notifications that had a sleeper
};

}  // namespace tandem
