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
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "tandem/base/mutex.h"

namespace tandem {

class SlotPool {
 public:
  /// The right to use one slot, until destroyed. Moves; a moved-from lease holds nothing.
  class Lease {
   public:
    /// A lease may be given to another thread, which may give the slot back there.
    Lease(Lease&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_) {}
    Lease& operator=(Lease&& other) noexcept {
      if (this != &other) {
        give_back();
        pool_ = std::exchange(other.pool_, nullptr);
        index_ = other.index_;
      }
      return *this;
    }
    ~Lease() { give_back(); }

    /// The slot's number, 0 .. slots-1; a moved-from lease keeps its old number, which means nothing.
    [[nodiscard]] std::size_t index() const { return index_; }
    /// Ends the lease before its destruction. Wakes one thread that waits in acquire(). Does nothing when the lease
    /// holds no slot.
    void give_back() noexcept;

   private:
    // Only a pool makes leases, so that each slot has one holder at most.
    friend class SlotPool;
    Lease(SlotPool* pool, std::size_t index) : pool_(pool), index_(index) {}
    SlotPool* pool_;
    std::size_t index_;
  };

  /// A pool of `slots` idle slots, at least one, with the indices 0 .. slots-1. Throws InvariantError for none.
  explicit SlotPool(std::size_t slots);
  // Leases point to their pool, so a pool stays where it is.
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  /// Waits for an idle slot. The slot that was used last comes first, since the caches may still hold its memory.
  /// Returns nothing when a stop was requested or the deadline passed.
  [[nodiscard]] std::optional<Lease> acquire(const std::stop_token& stop,
                                             const Deadline& deadline = Deadline::infinite());
  /// Returns a lease if a slot is idle now. Never waits.
  [[nodiscard]] std::optional<Lease> try_acquire();

  [[nodiscard]] std::size_t size() const { return slots_; }
  /// The number of slots that nobody has leased. It may change as soon as this returns.
  [[nodiscard]] std::size_t idle() const;
  /// The number of threads that wait in acquire() now.
  [[nodiscard]] std::size_t waiters() const { return returned_.waiters(); }

 private:
  // Takes the slot that came back last; nothing when none is idle.
  std::optional<Lease> take() TANDEM_REQUIRES(mutex_);

  const std::size_t slots_;
  mutable Mutex mutex_;
  CondVar returned_;
  std::vector<std::size_t> idle_ TANDEM_GUARDED_BY(mutex_);  // the last one is handed out next
};

}  // namespace tandem
