// concurrency/bounded_queue.h: first in, first out, between the stages of a pipeline.
//
// Threads: any number of producers and consumers. Destroy it only after they have been joined.
// Endings: close() ends the input, and what is queued is still delivered. A stop request or a deadline ends waiting: an
// operation that could proceed at once still does, so a stopping loop must also test its token.
// Carry handles to preallocated buffers (SlotPool), not copies of data.
#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <stop_token>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"

namespace tandem {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) { TANDEM_CHECK(capacity > 0); }

  /// Waits for room. True when queued; false when closed, stopped or too late, and `item` is then untouched.
  [[nodiscard]] bool push(T&& item, const std::stop_token& stop, const Deadline& deadline = Deadline::infinite()) {
    {
      MutexLock lock(mutex_);
      const bool ready = room_.wait(mutex_, stop, deadline,
                                    [this]() TANDEM_REQUIRES(mutex_) { return closed_ || items_.size() < capacity_; });
      if (!ready || closed_) return false;
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
    return true;
  }

  /// Waits for an item. Empty when the queue is closed and drained, or when stopped or too late.
  [[nodiscard]] std::optional<T> pop(const std::stop_token& stop, const Deadline& deadline = Deadline::infinite()) {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      ready_.wait(mutex_, stop, deadline, [this]() TANDEM_REQUIRES(mutex_) { return closed_ || !items_.empty(); });
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
    return items_.size();
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
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  CondVar room_, ready_;
  std::deque<T> items_ TANDEM_GUARDED_BY(mutex_);
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem
