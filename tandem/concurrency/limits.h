// concurrency/limits.h: what ends a blocking call early. Every wait in Tandem takes limits.
//
//   group.barrier({.deadline = Deadline::after(5min), .stop = stop});
//
// Threads: a value.
#pragma once
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

}  // namespace tandem
