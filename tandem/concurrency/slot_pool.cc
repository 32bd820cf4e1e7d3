#include "tandem/concurrency/slot_pool.h"

#include "tandem/base/check.h"

namespace tandem {

// The highest index goes in first, so that slot 0 is handed out first.
SlotPool::SlotPool(std::size_t slots) : slots_(slots) {
  TANDEM_CHECK(slots > 0);
  MutexLock lock(mutex_);
  for (std::size_t i = slots; i > 0; --i) idle_.push_back(i - 1);
}

std::optional<SlotPool::Lease> SlotPool::take() {
  if (idle_.empty()) return std::nullopt;
  Lease lease(this, idle_.back());
  idle_.pop_back();
  return lease;
}

std::optional<SlotPool::Lease> SlotPool::acquire(const std::stop_token& stop, const Deadline& deadline) {
  MutexLock lock(mutex_);
  returned_.wait(mutex_, stop, deadline, [this]() TANDEM_REQUIRES(mutex_) { return !idle_.empty(); });
  return take();
}

std::optional<SlotPool::Lease> SlotPool::try_acquire() {
  MutexLock lock(mutex_);
  return take();
}

std::size_t SlotPool::idle() const {
  MutexLock lock(mutex_);
  return idle_.size();
}

void SlotPool::Lease::give_back() noexcept {
  if (pool_ == nullptr) return;
  SlotPool& pool = *std::exchange(pool_, nullptr);
  MutexLock lock(pool.mutex_);
  pool.idle_.push_back(index_);  // never allocates: the vector once held every slot
  pool.returned_.notify_one();   // under the mutex: the waiter may destroy the pool as soon as it can proceed
}

}  // namespace tandem
