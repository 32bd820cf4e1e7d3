#include "tandem/device/one_core.h"

#include <ATen/Parallel.h>

#include "tandem/base/mutex.h"

namespace tandem::device {

// In a forked process LibTorch makes its thread pool anew at the first call, without a lock. Hence the mutex.
void use_one_core() {
  thread_local bool is_set = false;
  if (is_set) return;
  static Mutex one_at_a_time;
  const MutexLock lock(one_at_a_time);
  at::set_num_threads(1);
  is_set = true;
}

}  // namespace tandem::device
