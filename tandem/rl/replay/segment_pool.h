// rl/replay/segment_pool.h: places for segments of equal size, handed out by reference and used again when the last
// reference is gone.
//
//   SegmentPool pool(memory, 1 << 20, 48);
//   std::shared_ptr<std::byte> segment = pool.take();
//
// A part lets go of the segment that it is about to overwrite. If nobody else holds it, its place is the next one that
// take() hands out. If a snapshot still holds it, take() gets memory from the heap, which goes when it is let go.
//
// Threads: take() is the part's; references may be dropped on any thread, also after the pool is gone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/base/mutex.h"

namespace tandem::rl {

class SegmentPool {
 public:
  /// `memory`: of segments * segment_bytes bytes; kept alive. segment_bytes is a multiple of kSegmentAlignment.
  SegmentPool(std::shared_ptr<std::byte> memory, std::size_t segment_bytes, std::size_t segments);

  /// A place whose bytes are undefined. Takes memory from the heap when all places are held; std::bad_alloc then.
  [[nodiscard]] std::shared_ptr<std::byte> take();

  /// Bytes of the heap that are held now.
  [[nodiscard]] std::uint64_t heap_bytes() const;

 private:
  struct Places;
  std::shared_ptr<Places> places_;
};

/// Columns of a segment begin at cache lines.
inline constexpr std::size_t kSegmentAlignment = 64;
[[nodiscard]] constexpr std::size_t aligned_for_segment(std::size_t bytes) {
  return (bytes + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
}

}  // namespace tandem::rl
