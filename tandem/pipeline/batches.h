// pipeline/batches.h: batches on their way from the rollout workers to the learner: first in a queue, then in buffers
// beside the learner, into which loaders copy them before it needs them.
//
// Threads: all; each producer pushes on its own, load_one() belongs to each loader, pop() and try_pop() of loaded
// batches to the learner. Destroy them only after all threads have been joined.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/slot_pool.h"
#include "tandem/concurrency/trace.h"
#include "tandem/pipeline/stages.h"

namespace tandem::pipeline {

/// Describes a batch apart from its data.
struct BatchTag {
  // The pipeline overwrites `producer` and `number` after the batch was made; `version` and `samples` come from the one
  // who made it.
  int producer = 0;  // the rollout worker's number
  // Learner steps that the policy had made which sampled the batch.
  std::int64_t version = 0;
  std::int64_t samples = 0;  // environment steps
  // The place of the batch in the order in which batches began. Only set where that order is bounded (StartWindow).
  std::int64_t number = 0;
};

/// One entry of the queue. Moving it moves the data; nothing is copied on the way to a loader.
template <typename T>
struct Tagged {
  T data;
  BatchTag tag;
};

/// A bounded queue, first in, first out, that also remembers when and by whom it was last fed, for error messages. A
/// full queue holds its producers back, an empty one its consumers, until the limits end the wait. The last producer
/// that ends closes it: what is queued is still delivered.
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

/// How long a loader waited for its batch and took to load it.
/// The wait for an idle buffer is not counted: it means that the learner is the slower side.
struct LoadTimes {
  Clock::duration dequeue{0}, load{0};
};

/// A buffer is idle, being loaded, or ready. It stays ready until the Loaded that holds it is destroyed. A loader takes
/// an idle buffer first and a batch afterwards, so no batch is hidden in a loader that has nowhere to put it. Batches
/// become ready in the order in which they were queued, however many loaders there are.
///
/// `Buffer`: memory beside the learner, or a number that names it. It is moved in once and never copied; buffers live
/// as long as this object, which outlives every Loaded. Blocking: load_one() and pop() wait until the limits end the
/// wait. Errors: what loading throws goes to the loader that called. Its buffer is idle again, and the other loaders
/// get GroupAborted, since the order cannot be kept any more.
template <typename Buffer>
class LoadedBuffers {
 public:
  /// A batch in its buffer, which is idle again when this is destroyed.
  class Loaded {
   public:
    [[nodiscard]] Buffer& buffer() const { return *buffer_; }
    [[nodiscard]] const BatchTag& tag() const { return tag_; }

   private:
    // The lease keeps the buffer from being idle. Moving a Loaded moves the lease.
    friend class LoadedBuffers;
    Loaded(SlotPool::Lease lease, Buffer& buffer) : lease_(std::move(lease)), buffer_(&buffer) {}
    SlotPool::Lease lease_;
    Buffer* buffer_;
    BatchTag tag_;
  };

  /// Throws ConfigError when there are more loaders than buffers, for some could then never load.
  LoadedBuffers(std::vector<Buffer> buffers, int loaders)
      : buffers_(std::move(buffers)), idle_(buffers_.size()), intake_(1), loaders_(loaders), ready_(buffers_.size()) {
    if (loaders < 1 || static_cast<std::size_t>(loaders) > buffers_.size()) {
      throw ConfigError(concat(loaders, " loaders for ", buffers_.size(),
                               " buffers; there must be at least one, and at most as many as buffers"));
    }
  }

  /// A loader's step: takes one batch of `queue` and copies it by load(data, buffer). `times` is written when the
  /// progress is kMade. kEnded: the queue is drained.
  template <typename T, typename Load>
  Progress load_one(BatchQueue<T>& queue, const Load& load, const Limits& limits, LoadTimes& times) {
    std::optional<SlotPool::Lease> lease = idle_.acquire(limits.stop, limits.deadline);
    if (!lease) return Progress::kNone;
    const Clock::time_point begun = Clock::now();
    std::optional<Turn<T>> next = take(queue, limits);
    if (!next) return queue.drained() ? Progress::kEnded : Progress::kNone;
    const Clock::time_point dequeued = Clock::now();
    Buffer& buffer = buffers_[lease->index()];
    Loaded loaded(std::move(*lease), buffer);
    loaded.tag_ = next->batch.tag;
    try {
      const Span span("load");
      load(next->batch.data, loaded.buffer());
    } catch (...) {
      break_order();
      throw;
    }
    times = {.dequeue = dequeued - begun, .load = Clock::now() - dequeued};
    return put(std::move(loaded), next->number, limits.stop) ? Progress::kMade : Progress::kNone;
  }
  /// One loader will not load again; the last closes the ready batches, which are still delivered.
  void loader_ended() {
    {
      MutexLock lock(mutex_);
      if (--loaders_ > 0) return;
    }
    ready_.close();
  }

  /// Returns the next loaded batch, or nothing when drained, stopped or too late.
  [[nodiscard]] std::optional<Loaded> pop(const Limits& limits) { return ready_.pop(limits.stop, limits.deadline); }
  /// Takes a batch that is ready, without a wait.
  [[nodiscard]] std::optional<Loaded> try_pop() { return ready_.try_pop(); }
  /// Whether no batch will ever be ready again.
  [[nodiscard]] bool drained() const { return ready_.closed() && ready_.size() == 0; }

  /// How many buffers there are, are idle and are ready; the rest are being loaded or learned from. The last two are
  /// snapshots.
  [[nodiscard]] std::size_t size() const { return buffers_.size(); }
  [[nodiscard]] std::size_t idle() const { return idle_.idle(); }
  [[nodiscard]] std::size_t ready() const { return ready_.size(); }
  /// Loaders that wait for an idle buffer, for another one to take from the queue, and for the one before them to be
  /// ready; and whether the learner waits for a batch.
  [[nodiscard]] std::size_t waiting_for_buffer() const { return idle_.waiters(); }
  [[nodiscard]] std::size_t waiting_for_intake() const { return intake_.waiters(); }
  [[nodiscard]] std::size_t waiting_for_turn() const { return turn_.waiters(); }
  [[nodiscard]] std::size_t waiting_for_batch() const { return ready_.blocked_consumers(); }

 private:
  // A batch and its place in the order of the queue, counted from 0.
  template <typename T>
  struct Turn {
    Tagged<T> batch;
    std::int64_t number;
  };

  // Takes a batch with its number. One loader at a time, so that numbers are in the order of the queue.
  template <typename T>
  std::optional<Turn<T>> take(BatchQueue<T>& queue, const Limits& limits) {
    const Span span("wait for batch");
    const std::optional<SlotPool::Lease> alone = intake_.acquire(limits.stop, limits.deadline);
    if (!alone) return std::nullopt;
    std::optional<Tagged<T>> batch = queue.pop(limits);
    if (!batch) return std::nullopt;
    MutexLock lock(mutex_);
    return Turn<T>{std::move(*batch), taken_++};
  }

  // Waits for the loaders whose batches were taken before, and makes this one ready. The push never waits: each ready
  // batch leases a buffer, and there is room for all buffers.
  bool put(Loaded loaded, std::int64_t number, const std::stop_token& stop) {
    MutexLock lock(mutex_);
    turn_.wait(mutex_, stop, [&]() TANDEM_REQUIRES(mutex_) { return broken_ || put_ == number; });
    if (broken_) throw GroupAborted("another loader failed");
    if (put_ != number) return false;
    (void)ready_.push(std::move(loaded), {});
    ++put_;
    turn_.notify_all();
    return true;
  }

  // A loader failed: the batches behind its own can never be ready in their order.
  void break_order() {
    MutexLock lock(mutex_);
    broken_ = true;
    turn_.notify_all();
  }

  // The position of a buffer is the index of its lease in idle_.
  std::vector<Buffer> buffers_;
  SlotPool idle_;
  SlotPool intake_;  // its one slot: the right to take from the queue
  mutable Mutex mutex_;
  CondVar turn_;
  // Loaders that have not ended; batches taken from the queue so far; batches made ready so far.
  int loaders_ TANDEM_GUARDED_BY(mutex_);
  std::int64_t taken_ TANDEM_GUARDED_BY(mutex_) = 0, put_ TANDEM_GUARDED_BY(mutex_) = 0;
  bool broken_ TANDEM_GUARDED_BY(mutex_) = false;
  BoundedQueue<Loaded> ready_;  // last: its leases go back to idle_
};

}  // namespace tandem::pipeline
