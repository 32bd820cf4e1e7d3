// pipeline/batch_claims.h: which batches are made: a producer claims each before it begins, up to a limit that can be
// lowered on the way.
//
// Several pipelines that have to make equally many, one a rank, hold() theirs, exchange what was claimed, and release()
// with the most of any.
//
// Threads: all. Blocking: claim(), between hold() and release() only; whoever holds must release, also when it fails.
#pragma once
#include <cstdint>

#include "tandem/base/mutex.h"

namespace tandem::pipeline {

class BatchClaims {
 public:
  /// `samples`: of a batch. `made`: claimed before. Batches are claimed as long as fewer than `limit` samples are.
  BatchClaims(std::int64_t samples, std::int64_t made, std::int64_t limit)
      : samples_(samples), claimed_(made), limit_(limit) {}

  /// Whether one more batch is to be made.
  [[nodiscard]] bool claim() {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, Deadline::infinite(), [this]() TANDEM_REQUIRES(mutex_) { return !is_held_; });
    if (claimed_ >= limit_) return false;
    claimed_ += samples_;
    return true;
  }

  /// No more is claimed until release(). Returns the samples that are.
  [[nodiscard]] std::int64_t hold() {
    MutexLock lock(mutex_);
    is_held_ = true;
    return claimed_;
  }
  void release(std::int64_t limit) {
    {
      MutexLock lock(mutex_);
      is_held_ = false;
      limit_ = limit;
    }
    changed_.notify_all();
  }

  [[nodiscard]] std::size_t waiters() const { return changed_.waiters(); }

 private:
  const std::int64_t samples_;
  Mutex mutex_;
  CondVar changed_;
  std::int64_t claimed_ TANDEM_GUARDED_BY(mutex_), limit_ TANDEM_GUARDED_BY(mutex_);
  bool is_held_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem::pipeline
