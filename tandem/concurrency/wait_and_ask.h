// concurrency/wait_and_ask.h: a wait for others that asks them when its deadline has passed.
//
// Threads: the one that waits. Blocking: until `limits.deadline`, and `limits.answer` longer.
#pragma once
#include <algorithm>
#include <chrono>

#include "tandem/concurrency/limits.h"

namespace tandem {

/// Who is missing may have been between two waits when it was asked, so it is asked again.
inline constexpr std::chrono::milliseconds kAskAgain{50};

/// The outcome of `wait(deadline)`, of an enum in which kDeadline says that the deadline came first. Then `ask()` runs
/// before each further wait, for as long as `limits` give time to answer.
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
