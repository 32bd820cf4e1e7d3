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

}  // namespace

// Note [No wake-up is lost]
// A sleeper counts itself and then lets the kernel compare the word with `old`; a waker changes the word and then looks
// at the count. All four are sequentially consistent. If the waker saw no sleeper, the sleeper's count came after the
// change, so the kernel sees the changed word and does not put it to sleep.
std::uint32_t WaitWord::sleep_while(std::uint32_t old, const Deadline& deadline) {
  timespec limit{};
  if (!deadline.is_infinite()) limit = to_timespec(deadline.at());
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  std::uint32_t now = value_.load(std::memory_order_seq_cst);
  while (now == old && !deadline.expired()) {
    syscall(SYS_futex, &value_, FUTEX_WAIT_BITSET_PRIVATE, old, deadline.is_infinite() ? nullptr : &limit, nullptr,
            FUTEX_BITSET_MATCH_ANY);  // returns early on a signal or a chance wake-up: the loop looks again
    now = load();
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return now;
}

void WaitWord::wake_sleepers() { syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace tandem
