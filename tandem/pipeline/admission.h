// pipeline/admission.h: what a stage asks before it goes on: a worker whether it may begin one more batch (BatchClaims)
// and whether it may now (StartWindow), the learner whether it may make a step (StepPermits).
//
// Threads: all. Blocking: BatchClaims::claim(), StartWindow::begin() and StepPermits::await() wait.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"

namespace tandem::pipeline {

/// How many batches a pipeline makes: a producer claims each before it begins it, up to a limit that can be lowered on
/// the way. The pipelines of several ranks must make equally many. To end together, each rank calls hold(), the ranks
/// exchange how much they have claimed, and each calls release() with the largest of these numbers.
///
/// Samples, not batches, are counted: a batch that begins below the limit is made whole. The caller chooses the unit;
/// runs of several ranks count the environment steps of all ranks, so that the numbers can be compared. claim() waits
/// between hold() and release(), and nowhere else. Whoever holds must release, also when it fails.
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

  /// Samples that are claimed so far.
  [[nodiscard]] std::int64_t claimed() const {
    MutexLock lock(mutex_);
    return claimed_;
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
  mutable Mutex mutex_;
  CondVar changed_;
  std::int64_t claimed_ TANDEM_GUARDED_BY(mutex_), limit_ TANDEM_GUARDED_BY(mutex_);
  bool is_held_ TANDEM_GUARDED_BY(mutex_) = false;
};

/// Keeps a bound on policy lag by limiting which batches may begin: at most `width`, counted from the oldest one that
/// is not over yet. Numbers count the batches of all producers from 0, in the order in which they began.
///
///     oldest that is not over        next
///        | 7 | 8 (over) | 9 (over) | 10 |      width 4: 10 may begin, 11 must wait until 7 is over
///
/// So between the begin and the end of one batch at most 2 (width - 1) other batches end: width - 1 that were under
/// way, and width - 1 that began meanwhile. The producer that asks first begins first, so that none of several
/// producers is left behind.
class StartWindow {
 public:
  /// Throws InvariantError for a width below 1, which would let nothing begin.
  explicit StartWindow(std::int64_t width) : width_(width) {
    TANDEM_CHECK(width > 0);
    over_.resize(static_cast<std::size_t>(width));
  }

  /// Returns the number of the batch that `producer` begins, or nothing when stopped or too late. The producer then
  /// keeps its place before those that ask later, until it withdraws.
  [[nodiscard]] std::optional<std::int64_t> begin(int producer, const Limits& limits) {
    std::int64_t number = 0;
    {
      MutexLock lock(mutex_);
      if (std::ranges::find(asking_, producer) == asking_.end()) asking_.push_back(producer);
      const auto open = [&]()
                            TANDEM_REQUIRES(mutex_) { return asking_.front() == producer && next_ < oldest_ + width_; };
      moved_.wait(mutex_, limits.stop, limits.deadline, open);
      if (!open()) return std::nullopt;
      asking_.erase(asking_.begin());
      number = next_++;
      over_[place(number)] = false;
    }
    moved_.notify_all();
    return number;
  }
  /// `producer` begins no more batches; the others do not wait for its turn.
  void withdraw(int producer) {
    {
      MutexLock lock(mutex_);
      std::erase(asking_, producer);
    }
    moved_.notify_all();
  }
  /// Batch `number` is over: learned from, dropped, or never made. Throws InvariantError when it was not under way.
  void end(std::int64_t number) {
    {
      MutexLock lock(mutex_);
      TANDEM_CHECK(number >= oldest_ && number < next_ && !over_[place(number)], "batch ", number, " is not under way");
      over_[place(number)] = true;
      while (oldest_ < next_ && over_[place(oldest_)]) ++oldest_;
    }
    moved_.notify_all();
  }

  /// Producers that wait in begin(), for tests.
  [[nodiscard]] std::size_t waiters() const { return moved_.waiters(); }

 private:
  // The ring has `width` places: batches under way span at most `width` numbers, so two never share one.
  [[nodiscard]] std::size_t place(std::int64_t number) const { return static_cast<std::size_t>(number % width_); }

  const std::int64_t width_;
  Mutex mutex_;
  CondVar moved_;
  std::vector<int> asking_ TANDEM_GUARDED_BY(mutex_);  // in the order in which they came
  // The oldest batch that is not over, and the number that the next batch gets.
  std::int64_t oldest_ TANDEM_GUARDED_BY(mutex_) = 0, next_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::vector<char> over_ TANDEM_GUARDED_BY(mutex_);  // of those from oldest_ to next_, in a ring
};

/// How many steps the learner may make before it rests. The learners of several ranks make their steps together; with
/// equally many permits they rest after the same step, and meanwhile their owners can meet in collectives of their own.
/// A permit is used only after the step was made, so a step that fails keeps its permit. await() and use() belong to
/// the learner.
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
