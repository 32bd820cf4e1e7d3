#include "tandem/rl/replay/segment_pool.h"

#include <new>
#include <optional>
#include <utility>

#include "tandem/base/check.h"

namespace tandem::rl {

// Shared by the pool and all references, since these may outlive it.
struct SegmentPool::Places {
  Places(std::shared_ptr<std::byte> all, std::size_t bytes, std::size_t segments)
      : memory(std::move(all)), segment_bytes(bytes) {
    MutexLock lock(mutex);
    for (std::size_t i = segments; i > 0; --i) idle.push_back(i - 1);  // the first is handed out first
  }

  std::optional<std::size_t> take() {
    MutexLock lock(mutex);
    if (idle.empty()) {
      heap_bytes += segment_bytes;
      return std::nullopt;
    }
    const std::size_t place = idle.back();
    idle.pop_back();
    return place;
  }
  void give_back(std::size_t place) {
    MutexLock lock(mutex);
    idle.push_back(place);  // never allocates: the vector once held every place
  }
  void forget_heap() {
    MutexLock lock(mutex);
    heap_bytes -= segment_bytes;
  }

  const std::shared_ptr<std::byte> memory;
  const std::size_t segment_bytes;
  mutable Mutex mutex;
  std::vector<std::size_t> idle TANDEM_GUARDED_BY(mutex);
  std::uint64_t heap_bytes TANDEM_GUARDED_BY(mutex) = 0;
};

SegmentPool::SegmentPool(std::shared_ptr<std::byte> memory, std::size_t segment_bytes, std::size_t segments)
    : places_(std::make_shared<Places>(std::move(memory), segment_bytes, segments)) {
  TANDEM_CHECK(segments > 0 && segment_bytes > 0 && segment_bytes % kSegmentAlignment == 0, segments, " segments of ",
               segment_bytes, " bytes");
}

std::shared_ptr<std::byte> SegmentPool::take() {
  const std::optional<std::size_t> place = places_->take();
  if (place) {
    return {places_->memory.get() + *place * places_->segment_bytes,
            [places = places_, at = *place](std::byte*) { places->give_back(at); }};
  }
  try {
    auto* const bytes =
        static_cast<std::byte*>(::operator new (places_->segment_bytes, std::align_val_t{kSegmentAlignment}));
    return {bytes, [places = places_](std::byte* address) {
              ::operator delete (address, std::align_val_t{kSegmentAlignment});
              places->forget_heap();
            }};
  } catch (const std::bad_alloc&) {
    places_->forget_heap();
    throw;
  }
}

std::uint64_t SegmentPool::heap_bytes() const {
  MutexLock lock(places_->mutex);
  return places_->heap_bytes;
}

}  // namespace tandem::rl
