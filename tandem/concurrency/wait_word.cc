#include "tandem/concurrency/wait_word.h"

#include "tandem/concurrency/futex.h"

namespace tandem {

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

}  // namespace tandem
