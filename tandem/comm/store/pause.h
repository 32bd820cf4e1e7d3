// comm/pause.h: the time between two looks at what cannot wake us: a process elsewhere.
#pragma once
#include <algorithm>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"

namespace tandem::comm {

/// Blocks for `span`, or until the limits end it. Threads: all.
inline void pause(Clock::duration span, const Limits& limits) {
  Mutex mutex;
  CondVar never;
  const MutexLock lock(mutex);
  const Deadline end = Deadline::after(std::min(span, limits.deadline.remaining()));
  (void)never.wait(mutex, limits.stop, end, [] { return false; });
}

}  // namespace tandem::comm
