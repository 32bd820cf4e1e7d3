// concurrency/testing/within.h: how tests say when a wait gives up.
#pragma once
#include "tandem/concurrency/limits.h"

namespace tandem {

inline Limits within(Clock::duration span) { return {.deadline = Deadline::after(span), .stop = {}}; }

}  // namespace tandem
