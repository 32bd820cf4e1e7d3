// pipeline/loaded_buffers.h: the buffers that batches are copied into, beside the learner, before it needs them.
//
// A buffer is idle, being loaded, or ready. It stays ready until the Loaded that holds it is destroyed. A loader takes
// an idle buffer first and a batch afterwards, so no batch is hidden in a loader that has nowhere to put it. Batches
// become ready in the order in which they were queued, however many loaders there are.
//
// Threads: load_one() belongs to each loader, pop() and try_pop() to the learner; the rest may be called by any.
// Ownership: buffers live as long as this object, which outlives every Loaded.
// Blocking: load_one() and pop() wait until the limits end the wait. Errors: what loading throws goes to the loader
// that called. Its buffer is idle again, and the other loaders get GroupAborted, since the order cannot be kept any
// more.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/concurrency/slot_pool.h"
#include "tandem/concurrency/trace.h"
#include "tandem/pipeline/batch_queue.h"
#include "tandem/pipeline/stage.h"

namespace tandem::pipeline {

/// How long a loader waited for its batch and took to load it.
/// The wait for an idle buffer is not counted: it means that the learner is the slower side.
struct LoadTimes {
  Clock::duration dequeue{0}, load{0};
};

/// `Buffer`: memory beside the learner, or a number that names it. It is moved in once and never copied.
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
