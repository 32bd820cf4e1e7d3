// concurrency/limits.h: what ends a blocking call early. Every wait in Tandem takes one.
#pragma once
#include <stop_token>

#include "tandem/base/clock.h"

namespace tandem {

/// A wait ends with a failure at `deadline`, or when `stop` is requested, whichever comes first.
struct Limits {
  Deadline deadline = Deadline::infinite();
  std::stop_token stop;
};

enum class WaitOutcome { kReady, kDeadline, kStopped };

}  // namespace tandem
