#include "tandem/concurrency/wait_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <ctime>

namespace tandem {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

// steady_clock is CLOCK_MONOTONIC here, which is what FUTEX_WAIT_BITSET measures an absolute time by.
timespec to_timespec(Clock::time_point at) {
  const auto since = at.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  return {static_cast<time_t>(seconds.count()),
          static_cast<long>(std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds).count())};
}

// The kernel finds a private futex by its address alone, which is faster than by its page.
int in_scope(int operation, FutexScope scope) {
  return scope == FutexScope::kProcess ? operation | FUTEX_PRIVATE_FLAG : operation;
}

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t old, const Deadline& deadline, FutexScope scope) {
  timespec limit{};
  if (!deadline.is_infinite()) limit = to_timespec(deadline.at());
  syscall(SYS_futex, &word, in_scope(FUTEX_WAIT_BITSET, scope), old, deadline.is_infinite() ? nullptr : &limit, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexScope scope) {
  syscall(SYS_futex, &word, in_scope(FUTEX_WAKE, scope), INT_MAX, nullptr, nullptr, 0);
}

// Note [No wake-up is lost]
// A sleeper counts itself and then lets the kernel compare the word with `old`; a waker changes the word and then looks
// at the count. All four are sequentially consistent. If the waker saw no sleeper, the sleeper's count came after the
// change, so the kernel sees the changed word and does not put it to sleep.
std::uint32_t WaitWord::sleep_while(std::uint32_t old, const Deadline& deadline) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::uint32_t now = value_.load(std::memory_order_seq_cst);
  while (now == old && !deadline.expired()) {
    futex_wait(value_, old, deadline, FutexScope::kProcess);
    now = load();
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return now;
}

void WaitWord::wake_sleepers() { futex_wake_all(value_, FutexScope::kProcess); }

// Note [Sleepers are counted before the condition is read]
// A waiter raises sleepers_, reads epoch_ and only then the condition; a notifier makes the condition true and only
// then reads sleepers_. All of it is sequentially consistent, so either the waiter sees the condition, or the notifier
// sees the sleeper and moves epoch_, on which the waiter then does not sleep.
void EventCount::notify_all() {
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
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
    (void)epoch_.sleep_while(epoch, limits.deadline);
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return outcome;
}

}  // namespace tandem
