// shm/arena.h: gives out one rank's part of the shared region. All ranks have mapped the region already, so allocating
// exchanges nothing and waits for nobody. Other ranks find a buffer by its offset in the region.
//
// Memory that is given back is kept for the next allocation and goes back to the system only at the end of the group.
// The arena is made for few, large and long-lived buffers.
//
// Threads: all. Ownership: each allocation holds the arena, and the arena holds the region, so the memory may outlive
// the group.
#pragma once
#include <cstdint>
#include <map>
#include <memory>

#include "tandem/base/mutex.h"
#include "tandem/shm/region.h"

namespace tandem::shm {

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  /// Takes no pages yet; the first allocation does.
  Arena(std::shared_ptr<Region> region, int rank);

  /// Allocates `bytes` bytes, at least one, aligned to a page. The content is whatever earlier uses left. The memory is
  /// given back when the last copy of the pointer is gone. Throws RunError when memory is short.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::uint64_t bytes);

 private:
  // take() returns the offset of a free range, or of new pages at the end; give_back() joins a range with its free
  // neighbours.
  std::uint64_t take(std::uint64_t bytes);
  void give_back(std::uint64_t begin, std::uint64_t bytes);

  const std::shared_ptr<Region> region_;
  const std::uint64_t begin_, limit_;
  Mutex mutex_;
  std::uint64_t end_ TANDEM_GUARDED_BY(mutex_);                            // the end of all pages taken so far
  std::map<std::uint64_t, std::uint64_t> free_ TANDEM_GUARDED_BY(mutex_);  // begin to bytes; no two ranges touch
};

}  // namespace tandem::shm
