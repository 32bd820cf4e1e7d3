#include "tandem/concurrency/futex.h"

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

}  // namespace tandem
