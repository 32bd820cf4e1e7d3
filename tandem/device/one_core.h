// device/one_core.h: keeps the computations of a thread on its own core.
#pragma once
#include <ATen/Parallel.h>

#include "tandem/base/mutex.h"
#include "tandem/device/vector_math.h"

namespace tandem::device {

/// From now on LibTorch's operations of the calling thread run on this thread alone. So the order of their sums is
/// fixed, and the other cores are free for other threads. A repeated call is cheap, and finds out whether a program
/// that does more than one run has set another number in between. Threads: all.
inline void use_one_core() {
  thread_local bool is_set = false;
  if (is_set && at::get_num_threads() == 1) return;
  static Mutex
      one_at_a_time;  // in a forked process LibTorch makes its thread pool anew at the first call, without a lock
  const MutexLock lock(one_at_a_time);
  at::set_num_threads(1);
  begin_vector_math();
  is_set = true;
}

}  // namespace tandem::device
