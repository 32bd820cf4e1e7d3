// rl/replay/rate_limiter.h: keeps the ratio of drawn rows to inserted rows within bounds while one thread inserts and
// another draws.
//
//   RateLimiter limiter({.samples_per_insert = 8, .min_rows = 1'000, .error_buffer = 2'048,
//                        .rows_of_insert = 64, .rows_of_sample = 256});
//   if (limiter.insert(limits) != WaitOutcome::kReady) return;   // the sampler, before each step of its group
//   if (limiter.sample(limits) != WaitOutcome::kReady) return;   // the learner, before each draw
//
// The laws are Reverb's (Cassirer et al., "Reverb: a framework for experience replay", 2021). With I rows inserted and
// S rows drawn, D = I * samples_per_insert - S must stay within min_rows * samples_per_insert +- error_buffer:
//
//     a draw is allowed if I >= min_rows and D is not below the range after it;
//     an insert is allowed while I <= min_rows after it, or if D is not above the range after it.
//
// A part that overwrites rows does not change the counts: they are of events, not of rows that are held.
//
// Threads: all. insert() and sample() wait, until the counts allow the call or the limits end it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"

namespace tandem::rl {

struct RateLimiterOptions {
  /// Rows drawn for each row inserted: the batch's rows times updates a step; above 0.
  double samples_per_insert = 1;
  /// Rows that are inserted before the first draw; at least 1.
  std::int64_t min_rows = 1;
  /// Half of the range of D. The range must hold one insert and one draw, so that never both wait for each other: at
  /// least max(rows_of_sample, rows_of_insert * samples_per_insert), as Reverb asks for single rows.
  double error_buffer = 1;
  /// Rows that one call counts; at least 1.
  std::int64_t rows_of_insert = 1, rows_of_sample = 1;
};

/// What was allowed so far.
struct RateCounts {
  std::int64_t inserted = 0, sampled = 0;
  friend bool operator==(const RateCounts&, const RateCounts&) = default;
};

class RateLimiter {
 public:
  /// Throws ConfigError with everything that is wrong with the options.
  explicit RateLimiter(const RateLimiterOptions& options);

  /// Waits until one insert, or one draw, is allowed, and counts it. Nothing is counted unless the outcome is kReady; a
  /// call that is allowed at once is counted also when it comes too late or stopped.
  [[nodiscard]] WaitOutcome insert(const Limits& limits);
  [[nodiscard]] WaitOutcome sample(const Limits& limits);
  /// The same without a wait; false: not allowed now.
  [[nodiscard]] bool try_insert();
  [[nodiscard]] bool try_sample();

  [[nodiscard]] RateCounts counts() const;
  /// Goes on from the counts of a checkpoint. Throws CheckpointError for counts that these options cannot have led to.
  void restore(const RateCounts& counts);

  /// Threads that wait in insert() and in sample(), for tests and reports of what a stuck run waits for.
  [[nodiscard]] std::size_t inserters_waiting() const { return insertable_.waiters(); }
  [[nodiscard]] std::size_t samplers_waiting() const { return sampleable_.waiters(); }

 private:
  [[nodiscard]] bool may_insert() const TANDEM_REQUIRES(mutex_);
  [[nodiscard]] bool may_sample() const TANDEM_REQUIRES(mutex_);
  [[nodiscard]] double surplus(std::int64_t inserted, std::int64_t sampled) const;

  const RateLimiterOptions options_;
  // The range of D.
  const double least_, most_;
  mutable Mutex mutex_;
  CondVar insertable_, sampleable_;
  RateCounts counts_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::rl
