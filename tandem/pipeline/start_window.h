// pipeline/start_window.h: keeps a bound on policy lag by limiting which batches may begin: at most `width`, counted
// from the oldest one that is not over yet.
//
//     oldest that is not over        next
//        | 7 | 8 (over) | 9 (over) | 10 |      width 4: 10 may begin, 11 must wait until 7 is over
//
// So between the begin and the end of one batch at most 2 (width - 1) other batches end: width - 1 that were under way,
// and width - 1 that began meanwhile.
//
// The producer that asks first begins first, so that none of several producers is left behind.
//
// Threads: all. Blocking: begin() waits until the limits end the wait.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"

namespace tandem::pipeline {

/// Numbers count the batches of all producers from 0, in the order in which they began.
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

}  // namespace tandem::pipeline
