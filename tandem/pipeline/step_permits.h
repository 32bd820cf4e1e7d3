// pipeline/step_permits.h: how many steps the learner may make before it rests. The learners of several ranks make
// their steps together; with equally many permits they rest after the same step, and meanwhile their owners can meet in
// collectives of their own.
//
// Threads: all; await() and use() belong to the learner. Blocking: await() waits until there is a permit or the limits
// end the wait.
#pragma once
#include <cstdint>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"

namespace tandem::pipeline {

/// A permit is used only after the step was made, so a step that fails keeps its permit.
class StepPermits {
 public:
  /// Permits so many more steps.
  void grant(std::int64_t steps) {
    {
      MutexLock lock(mutex_);
      left_ += steps;
    }
    changed_.notify_all();
  }
  /// From now on the learner needs no permits.
  void open() {
    {
      MutexLock lock(mutex_);
      is_open_ = true;
    }
    changed_.notify_all();
  }

  /// Waits until a step may be made. Returns false when the limits ended the wait.
  [[nodiscard]] bool await(const Limits& limits) {
    MutexLock lock(mutex_);
    return changed_.wait(mutex_, limits.stop, limits.deadline,
                         [this]() TANDEM_REQUIRES(mutex_) { return is_open_ || left_ > 0; });
  }
  /// Takes the permit of a step that was made. Throws InvariantError when there was none.
  void use() {
    MutexLock lock(mutex_);
    if (is_open_) return;
    TANDEM_CHECK(left_ > 0, "a step without a permit");
    --left_;
  }

  /// Learners that wait in await(): 0 or 1. For tests.
  [[nodiscard]] std::size_t waiters() const { return changed_.waiters(); }

 private:
  Mutex mutex_;
  CondVar changed_;
  // Permits that were granted and not used. Without meaning once is_open_.
  std::int64_t left_ TANDEM_GUARDED_BY(mutex_) = 0;
  bool is_open_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::pipeline
