// pipeline/batch_claims.h: how many batches a pipeline makes. A producer claims each batch before it begins it, up to a
// limit that can be lowered on the way.
//
// The pipelines of several ranks must make equally many batches. To end together, each rank calls hold(), the ranks
// exchange how much they have claimed, and each calls release() with the largest of these numbers.
//
// Samples, not batches, are counted: a batch that begins below the limit is made whole.
//
// Threads: all. Blocking: claim() waits between hold() and release(), and nowhere else. Whoever holds must release,
// also when it fails, or the producers wait for ever.
#pragma once
#include <cstdint>

#include "tandem/base/mutex.h"

namespace tandem::pipeline {

/// Counts claimed samples. The caller chooses the unit; runs of several ranks count the environment steps of all ranks,
/// so that the numbers can be compared.
class BatchClaims {
 public:
  /// `samples`: of a batch. `made`: samples that were claimed before. Batches can be claimed while fewer than `limit`
  /// samples are.
  BatchClaims(std::int64_t samples, std::int64_t made, std::int64_t limit)
      : samples_(samples), claimed_(made), limit_(limit) {}

  /// Returns whether one more batch is to be made.
  /// Returns false for good once the limit is reached, unless release() raises it. The wait while claims are held has
  /// no deadline: only release() ends it.
  [[nodiscard]] bool claim() {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, Deadline::infinite(), [this]() TANDEM_REQUIRES(mutex_) { return !is_held_; });
    if (claimed_ >= limit_) return false;
    claimed_ += samples_;
    return true;
  }

  /// Lets claim() wait until release(). Returns the samples that are claimed so far.
  [[nodiscard]] std::int64_t hold() {
    MutexLock lock(mutex_);
    is_held_ = true;
    return claimed_;
  }
  /// Sets the limit and lets claim() go on.
  void release(std::int64_t limit) {
    {
      MutexLock lock(mutex_);
      is_held_ = false;
      limit_ = limit;
    }
    changed_.notify_all();
  }

  /// Producers that wait in claim(), for tests.
  [[nodiscard]] std::size_t waiters() const { return changed_.waiters(); }

 private:
  // The limit may be passed by less than one batch, since a batch that begins below it is made whole.
  const std::int64_t samples_;
  Mutex mutex_;
  CondVar changed_;
  std::int64_t claimed_ TANDEM_GUARDED_BY(mutex_), limit_ TANDEM_GUARDED_BY(mutex_);
  bool is_held_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::pipeline
