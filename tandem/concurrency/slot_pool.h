// concurrency/slot_pool.h: leases preallocated slots, by index. The owner of the pool owns the memory behind the slots.
//
//   SlotPool pool(4);
//   std::optional<SlotPool::Lease> lease = pool.acquire(stop);
//   fill(buffers[lease->index()]);
//   queue.push(std::move(*lease), stop);   // the slot is idle again when the last holder drops the lease
//
// Threads: all. The pool outlives its leases. Blocking: acquire() waits until its stop token or deadline.
// Memory: nothing is allocated after the constructor.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"

namespace tandem {

class SlotPool {
 public:
  /// The right to use one slot, until destroyed. Moves, also to another thread, which may give the slot back there; a
  /// moved-from lease holds nothing.
  class Lease {
   public:
    /// The slot's number, 0 .. slots-1; a moved-from lease keeps its old number, which means nothing.
    [[nodiscard]] std::size_t index() const { return pool_.get_deleter().index; }
    /// Ends the lease before its destruction. Wakes one thread that waits in acquire(). Does nothing when the lease
    /// holds no slot.
    void give_back() noexcept { pool_.reset(); }

   private:
    // Only a pool makes leases, so that each slot has one holder at most.
    friend class SlotPool;
    struct GiveBack {
      std::size_t index;
      void operator()(SlotPool* pool) const noexcept { pool->take_back(index); }
    };
    Lease(SlotPool* pool, std::size_t index) : pool_(pool, GiveBack{index}) {}
    std::unique_ptr<SlotPool, GiveBack> pool_;
  };

  /// A pool of `slots` idle slots, at least one, with the indices 0 .. slots-1. Throws InvariantError for none.
  explicit SlotPool(std::size_t slots) : slots_(slots) {
    TANDEM_CHECK(slots > 0);
    MutexLock lock(mutex_);
    for (std::size_t i = slots; i > 0; --i) idle_.push_back(i - 1);  // slot 0 is handed out first
  }

  /// Waits for an idle slot. The slot that was used last comes first, since the caches may still hold its memory.
  /// Returns nothing when a stop was requested or the deadline passed.
  [[nodiscard]] std::optional<Lease> acquire(const std::stop_token& stop,
                                             const Deadline& deadline = Deadline::infinite()) {
    MutexLock lock(mutex_);
    returned_.wait(mutex_, stop, deadline, [this]() TANDEM_REQUIRES(mutex_) { return !idle_.empty(); });
    return take();
  }
  /// Returns a lease if a slot is idle now. Never waits.
  [[nodiscard]] std::optional<Lease> try_acquire() {
    MutexLock lock(mutex_);
    return take();
  }

  [[nodiscard]] std::size_t size() const { return slots_; }
  /// The number of slots that nobody has leased. It may change as soon as this returns.
  [[nodiscard]] std::size_t idle() const {
    MutexLock lock(mutex_);
    return idle_.size();
  }
  /// The number of threads that wait in acquire() now.
  [[nodiscard]] std::size_t waiters() const { return returned_.waiters(); }

 private:
  // Takes the slot that came back last; nothing when none is idle.
  std::optional<Lease> take() TANDEM_REQUIRES(mutex_) {
    if (idle_.empty()) return std::nullopt;
    Lease lease(this, idle_.back());
    idle_.pop_back();
    return lease;
  }
  void take_back(std::size_t index) noexcept {
    MutexLock lock(mutex_);
    idle_.push_back(index);  // never allocates: the vector once held every slot
    returned_.notify_one();  // under the mutex: the waiter may destroy the pool as soon as it can proceed
  }

  const std::size_t slots_;
  mutable Mutex mutex_;
  CondVar returned_;
  std::vector<std::size_t> idle_ TANDEM_GUARDED_BY(mutex_);  // the last one is handed out next
};

}  // namespace tandem
