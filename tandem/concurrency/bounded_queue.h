// concurrency/bounded_queue.h: first in, first out, between the stages of a pipeline.
//
// Threads: any number of producers and consumers. Destroy it only after they have been joined.
// Endings: close() ends the input, and what is queued is still delivered. A stop request or a deadline ends waiting: an
// operation that could proceed at once still does, so a stopping loop must also test its token.
// Carry handles to preallocated buffers (SlotPool), not copies of data. The queue's own memory is made once.
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
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity), items_(capacity) { TANDEM_CHECK(capacity > 0); }

  /// Waits for room. True when queued; false when closed, stopped or too late, and `item` is then untouched.
  [[nodiscard]] bool push(T&& item, const std::stop_token& stop, const Deadline& deadline = Deadline::infinite()) {
    {
      MutexLock lock(mutex_);
      const bool ready = room_.wait(mutex_, stop, deadline,
                                    [this]() TANDEM_REQUIRES(mutex_) { return closed_ || count_ < capacity_; });
      if (!ready || closed_) return false;
      items_[(first_ + count_++) % capacity_].emplace(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// Waits for an item. Empty when the queue is closed and drained, or when stopped or too late.
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

  /// The next item if there is one now.
  [[nodiscard]] std::optional<T> try_pop() {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      item = take();
    }
    if (item) room_.notify_one();
    return item;
  }

  /// Ends the input and wakes everyone. Calling it again does nothing.
  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    room_.notify_all();
    ready_.notify_all();
  }

  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::size_t size() const {
    MutexLock lock(mutex_);
    return count_;
  }
  [[nodiscard]] bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }
  /// Threads that now wait in pop() and push(): where a pipeline is stuck, and proof of blocking for tests.
  [[nodiscard]] std::size_t blocked_consumers() const { return ready_.waiters(); }
  [[nodiscard]] std::size_t blocked_producers() const { return room_.waiters(); }

 private:
  std::optional<T> take() TANDEM_REQUIRES(mutex_) {
    if (count_ == 0) return std::nullopt;
    std::optional<T> item = std::exchange(items_[first_], std::nullopt);
    first_ = (first_ + 1) % capacity_;
    --count_;
    return item;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  CondVar room_, ready_;
  std::vector<std::optional<T>> items_ TANDEM_GUARDED_BY(mutex_);  // a ring: `count_` of them, from first_ on
  std::size_t first_ TANDEM_GUARDED_BY(mutex_) = 0, count_ TANDEM_GUARDED_BY(mutex_) = 0;
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem
