// concurrency/testing/limits.h: what waits of tests end by.
#pragma once
#include "tandem/concurrency/limits.h"

namespace tandem::testing {

inline const std::stop_token kNever;  // nobody requests a stop
inline const Limits kAtOnce{.deadline = Deadline::after(Clock::duration::zero()), .stop = {}};

}  // namespace tandem::testing
