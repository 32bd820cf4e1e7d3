#include "tandem/shm/shared_counter.h"

#include "tandem/concurrency/wait_word.h"

namespace tandem::shm {

// See Note [No wake-up is lost] in concurrency/wait_word.cc.
SharedCounter::Outcome SharedCounter::sleep(std::uint32_t count, const Deadline& deadline,
                                            const std::atomic<bool>& hurried) {
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

void SharedCounter::wake() {
  if (sleepers() > 0) futex_wake_all(word_, FutexScope::kHost);
}

}  // namespace tandem::shm
