// concurrency/bounded_queue.h: a queue between the stages of a pipeline, first in, first out.
//
//   BoundedQueue<SlotPool::Lease> filled(4);
//   if (!filled.push(std::move(lease), stop)) return;                         // a producer
//   while (auto lease = filled.pop(stop)) learn(buffers[lease->index()]);     // a consumer
//
// Threads: any number of producers and consumers. Destroy the queue only after they have been joined.
// Blocking: push() waits while the queue is full, pop() while it is empty.
// Endings: close() ends the input; items that are queued are still delivered. A stop request or a deadline ends a wait.
// An operation that can proceed at once still does, so a stopping loop must also test its token.
// Queue handles to preallocated buffers (SlotPool), not copies of data. The queue allocates in its constructor only.
// Order: items leave in the order in which their push() took the lock; waiting threads get their turn in no fixed
// order.
#pragma once
#include <cstddef>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"

namespace tandem {

template <typename T>
class BoundedQueue {
 public:
  /// An empty queue with room for `capacity` items, at least one. Throws InvariantError for a capacity of 0.
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity), items_(capacity) { TANDEM_CHECK(capacity > 0); }

  /// Waits for room. Returns true when `item` is queued; false when the queue is closed, a stop was requested or the
  /// deadline passed, and `item` is then untouched. An open queue with room takes the item even if a stop was requested
  /// before the call.
  [[nodiscard]] bool push(T&& item, const std::stop_token& stop, const Deadline& deadline = Deadline::infinite()) {
    {
      MutexLock lock(mutex_);
      const bool ready = room_.wait(mutex_, stop, deadline,
                                    [this]() TANDEM_REQUIRES(mutex_) { return closed_ || count_ < capacity_; });
      if (!ready || closed_) return false;
      items_[(first_ + count_++) % capacity_].emplace(std::move(item));
    }
    // The lock is given back before the wake-up, so that the woken thread need not wait for it.
    ready_.notify_one();
    return true;
  }

  /// Waits for an item. Returns nothing when the queue is closed and drained, a stop was requested or the deadline
  /// passed. Items that are queued are returned also after a stop request or close().
  [[nodiscard]] std::optional<T> pop(const std::stop_token& stop, const Deadline& deadline = Deadline::infinite()) {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      ready_.wait(mutex_, stop, deadline, [this]() TANDEM_REQUIRES(mutex_) { return closed_ || count_ > 0; });
      item = take();
    }
    if (item) room_.notify_one();
    return item;
  }

  /// Returns the next item if there is one now. Never waits.
  [[nodiscard]] std::optional<T> try_pop() {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      item = take();
    }
    if (item) room_.notify_one();
    return item;
  }

  /// Ends the input and wakes all waiting threads. Calling it again does nothing.
  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    // Both sides are woken: producers to give up, and consumers to take what is left.
    room_.notify_all();
    ready_.notify_all();
  }

  /// The most items that are queued at once, as the constructor was told.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  /// The number of queued items. It may change as soon as this returns, so it is for reports.
  [[nodiscard]] std::size_t size() const {
    MutexLock lock(mutex_);
    return count_;
  }
  /// Whether close() was called. Items may still be queued. Once true, the answer stays true.
  [[nodiscard]] bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }
  /// The number of threads that wait in pop() or push() now. It shows where a pipeline is stuck, and lets a test prove
  /// that a thread blocks.
  [[nodiscard]] std::size_t blocked_consumers() const { return ready_.waiters(); }
  [[nodiscard]] std::size_t blocked_producers() const { return room_.waiters(); }

 private:
  // Takes out the oldest item, if there is one. The item's place is emptied at once, so that a handle is not kept alive
  // by the ring.
  std::optional<T> take() TANDEM_REQUIRES(mutex_) {
    if (count_ == 0) return std::nullopt;
    std::optional<T> item = std::exchange(items_[first_], std::nullopt);
    first_ = (first_ + 1) % capacity_;
    --count_;
    return item;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  // Producers wait on room_, and consumers on ready_, so no wake-up goes to a thread that cannot use it.
  CondVar room_, ready_;
  std::vector<std::optional<T>> items_ TANDEM_GUARDED_BY(mutex_);  // a ring with `count_` items from first_ on
  std::size_t first_ TANDEM_GUARDED_BY(mutex_) = 0, count_ TANDEM_GUARDED_BY(mutex_) = 0;
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem
