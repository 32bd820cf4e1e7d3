// concurrency/limits.h: what ends a blocking call early. Every wait in Tandem takes limits.
//
//   group.barrier({.deadline = Deadline::after(5min), .stop = stop});
//
// Threads: a value.
#pragma once
#include <algorithm>
#include <chrono>
#include <stop_token>

#include "tandem/base/clock.h"

namespace tandem {

/// A wait ends with a failure at `deadline` or when `stop` is requested, whichever comes first.
struct Limits {
  Deadline deadline = Deadline::infinite();
  std::stop_token stop;
  /// How much longer a wait for members of a group goes on after the deadline. In this time the missing members are
  /// asked. A member that itself waits for others then names those, so the error names the member that really hangs.
  Clock::duration answer{};
};

/// How a wait ended: the condition holds, the deadline passed, or a stop was requested.
enum class WaitOutcome { kReady, kDeadline, kStopped };

/// A member that is asked between two of its waits does not notice, so the missing members are asked again and again.
inline constexpr std::chrono::milliseconds kAskAgain{50};

/// A wait for other members that asks the missing ones when its deadline has passed. A rank that is only slow answers
/// by letting its own wait expire, and then says for whom it waits. So the error names the rank that really hangs, and
/// not the ones that wait for it.
///
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
