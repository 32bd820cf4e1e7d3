// concurrency/event_count.h: lets threads sleep until a condition over several atomics holds, at no cost while nobody
// sleeps.
//
// A waiter spins for a while, since what it waits for is usually a microsecond away, and then sleeps. Whoever makes the
// condition true calls notify_all() afterwards. Where the condition is one word, use WaitWord alone.
//
// Threads: all members may be called from any thread. Within one process.
#pragma once
#include <atomic>
#include <functional>

#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"

namespace tandem {

class EventCount {
 public:
  /// Waits until `ready()` holds, spinning first. `ready` reads atomics and may be called often. A condition that holds
  /// wins over a limit that has passed.
  template <typename Ready>
  [[nodiscard]] WaitOutcome wait(Ready ready, const Limits& limits, SpinBudget spin) {
    if (spin_until(spin, ready)) return WaitOutcome::kReady;
    return sleep(std::function<bool()>(std::ref(ready)), limits);
  }

  /// Wakes every sleeper, to look at its condition again. To be called after the condition was made true by a
  /// sequentially consistent operation.
  void notify_all();

  /// Threads that now sleep, or are about to. Lets a test prove that a waiter blocks.
  [[nodiscard]] int sleepers() const { return sleepers_.load(std::memory_order_seq_cst); }

 private:
  WaitOutcome sleep(const std::function<bool()>& ready, const Limits& limits);

  alignas(64) std::atomic<int> sleepers_{0};
  WaitWord epoch_;
};

}  // namespace tandem
