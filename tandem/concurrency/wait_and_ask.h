// concurrency/wait_and_ask.h: a wait for other members that asks the missing ones when its deadline has passed.
//
// A rank that is only slow answers the call by letting its own wait expire, and then says for whom it waits. So the
// error names the rank that really hangs, and not the ones that wait for it.
//
// Threads: the waiting thread. Blocking: until `limits.deadline`, and at most `limits.answer` longer.
#pragma once
#include <algorithm>
#include <chrono>

#include "tandem/concurrency/limits.h"

namespace tandem {

/// A member that is asked between two of its waits does not notice, so the missing members are asked again and again.
inline constexpr std::chrono::milliseconds kAskAgain{50};

/// Returns the outcome of `wait(deadline)`, an enumerator of which kDeadline says that the deadline passed. In that
/// case calls `ask()` and waits again, as long as `limits` give time to answer.
template <typename Wait, typename Ask>
[[nodiscard]] auto wait_and_ask(const Limits& limits, const Wait& wait, const Ask& ask) {
  auto outcome = wait(limits.deadline);
  const Deadline answered = Deadline::after(limits.answer);
  while (outcome == decltype(outcome)::kDeadline && !answered.expired()) {
    ask();
    outcome = wait(Deadline::after(std::min<Clock::duration>(kAskAgain, answered.remaining())));
  }
  return outcome;
}

}  // namespace tandem
