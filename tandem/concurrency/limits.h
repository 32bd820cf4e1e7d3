// concurrency/limits.h: what ends a blocking call early. Every wait in Tandem takes one.
#pragma once
#include <stop_token>

#include "tandem/base/clock.h"

namespace tandem {

/// A wait ends with a failure at `deadline`, or when `stop` is requested, whichever comes first.
struct Limits {
  Deadline deadline = Deadline::infinite();
  std::stop_token stop;
  /// In a wait for members of a group, how much longer it goes on after the deadline: meanwhile those who are missing
  /// are asked, and who waits for others himself has them named.
  Clock::duration answer{};
};

enum class WaitOutcome { kReady, kDeadline, kStopped };

}  // namespace tandem
