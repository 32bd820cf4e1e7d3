#include "tandem/concurrency/event_count.h"

namespace tandem {

// Note [Sleepers are counted before the condition is read]
// A waiter raises sleepers_, reads epoch_ and only then the condition; a notifier makes the condition true and only
// then reads sleepers_. All of it is sequentially consistent, so either the waiter sees the condition, or the notifier
// sees the sleeper and moves epoch_, on which the waiter then does not sleep.
void EventCount::notify_all() {
  if (sleepers_.fetch_add(0, std::memory_order_seq_cst) == 0) return;
  epoch_.fetch_add(1);
  epoch_.wake_all();
}

// The epoch is read before the condition. If the condition becomes true in between, the notifier moves the epoch, and
// the wait on the old epoch returns at once.
WaitOutcome EventCount::sleep(const std::function<bool()>& ready, const Limits& limits) {
  const std::stop_callback on_stop(limits.stop, [this] {
    epoch_.fetch_add(1);
    epoch_.wake_all();
  });
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  WaitOutcome outcome = WaitOutcome::kReady;
  for (;;) {
    const std::uint32_t epoch = epoch_.load();
    if (ready()) break;
    if (limits.stop.stop_requested()) {
      outcome = WaitOutcome::kStopped;
      break;
    }
    if (limits.deadline.expired()) {
      outcome = WaitOutcome::kDeadline;
      break;
    }
    (void)epoch_.wait_while(epoch, SpinBudget{}, limits.deadline);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return outcome;
}

}  // namespace tandem
