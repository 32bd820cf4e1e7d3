// pipeline/step_permits.h: how many steps the learner may make before it rests: learners of several ranks, which make
// their steps together, so rest after the same one, and their owners can meet meanwhile.
//
// Threads: all; await() and use() are the learner's. Blocking: await(), until there is a permit or the limits end it.
#pragma once
#include <cstdint>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"

namespace tandem::pipeline {

class StepPermits {
 public:
  /// For so many steps more.
  void grant(std::int64_t steps) {
    {
      MutexLock lock(mutex_);
      left_ += steps;
    }
    changed_.notify_all();
  }
  /// From now on the learner needs none.
  void open() {
    {
      MutexLock lock(mutex_);
      is_open_ = true;
    }
    changed_.notify_all();
  }

  /// Whether a step may be made; waits for it.
  [[nodiscard]] bool await(const Limits& limits) {
    MutexLock lock(mutex_);
    return changed_.wait(mutex_, limits.stop, limits.deadline,
                         [this]() TANDEM_REQUIRES(mutex_) { return is_open_ || left_ > 0; });
  }
  /// A step that may be made was made.
  void use() {
    MutexLock lock(mutex_);
    if (is_open_) return;
    TANDEM_CHECK(left_ > 0, "a step without a permit");
    --left_;
  }

  [[nodiscard]] std::size_t waiters() const { return changed_.waiters(); }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::int64_t left_ TANDEM_GUARDED_BY(mutex_) = 0;
  bool is_open_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::pipeline
