// pipeline/batch_queue.h: batches on their way from the rollout workers to the loaders, first in, first out. Each has
// a tag that says where it comes from.
//
// Threads: all; each producer pushes on its own. Destroy it only after all have been joined.
// Blocking: a full queue holds its producers back, an empty one its consumers, until the limits end the wait. The last
// producer that ends closes it: what is queued is still delivered.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/concurrency/limits.h"

namespace tandem::pipeline {

/// Describes a batch apart from its data.
struct BatchTag {
  // The pipeline overwrites `producer` and `number` after the batch was made; `version` and `samples` come from the one
  // who made it.
  int producer = 0;  // the rollout worker's number
  // Learner steps that the policy had made which sampled the batch.
  std::int64_t version = 0;
  std::int64_t samples = 0;  // environment steps
  // The place of the batch in the order in which batches began. Only set where that order is bounded (start_window.h).
  std::int64_t number = 0;
};

/// One entry of the queue. Moving it moves the data; nothing is copied on the way to a loader.
template <typename T>
struct Tagged {
  T data;
  BatchTag tag;
};

/// A bounded queue that also remembers when and by whom it was last fed, for error messages.
template <typename T>
class BatchQueue {
 public:
  /// `capacity`: batches that fit. `producers`: how many calls of producer_ended() close the queue. Throws
  /// InvariantError when there is no producer.
  BatchQueue(std::size_t capacity, int producers) : queue_(capacity), producers_(producers) {
    TANDEM_CHECK(producers > 0);
  }

  /// Waits for room. Returns false when stopped or too late; `batch` is then untouched.
  [[nodiscard]] bool push(Tagged<T>&& batch, const Limits& limits) {
    const int producer = batch.tag.producer;
    if (!queue_.push(std::move(batch), limits.stop, limits.deadline)) return false;
    MutexLock lock(mutex_);
    ++pushed_;
    last_ = {producer, Clock::now()};
    return true;
  }
  /// Waits for a batch. Returns nothing when drained, stopped or too late.
  [[nodiscard]] std::optional<Tagged<T>> pop(const Limits& limits) { return queue_.pop(limits.stop, limits.deadline); }

  /// One producer has nothing more to push. The last one to say so closes the queue.
  void producer_ended() {
    {
      MutexLock lock(mutex_);
      if (--producers_ > 0) return;
    }
    queue_.close();
  }
  /// Whether nothing will ever come again.
  [[nodiscard]] bool drained() const { return queue_.closed() && queue_.size() == 0; }

  /// Snapshots, which may be out of date when they are returned. They serve statistics, messages and tests.
  [[nodiscard]] std::size_t size() const { return queue_.size(); }
  [[nodiscard]] std::size_t blocked_producers() const { return queue_.blocked_producers(); }
  [[nodiscard]] std::size_t blocked_consumers() const { return queue_.blocked_consumers(); }

  /// Text for an error of a consumer that waits in vain: "0 of 16 batches queued; 12 came so far, the last from rollout
  /// worker 2 31 s ago".
  [[nodiscard]] std::string history() const {
    const std::string now = concat(queue_.size(), " of ", queue_.capacity(), " batches queued; ");
    MutexLock lock(mutex_);
    if (!last_) return now + "none came so far";
    return concat(now, pushed_, " came so far, the last from rollout worker ", last_->producer, " ",
                  static_cast<std::int64_t>(seconds_since(last_->at)), " s ago");
  }

 private:
  // The last successful push. It is recorded after the push, so a consumer may briefly see the batch first.
  struct Last {
    int producer;
    Clock::time_point at;
  };

  BoundedQueue<Tagged<T>> queue_;
  mutable Mutex mutex_;
  // Producers that have not ended yet.
  int producers_ TANDEM_GUARDED_BY(mutex_);
  std::int64_t pushed_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::optional<Last> last_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::pipeline
