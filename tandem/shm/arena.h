// shm/arena.h: gives out one rank's part of the shared region. The other ranks have it mapped already, so nothing is
// exchanged and nobody waits: an address in it is an offset to all of them.
//
// Memory that is given back is kept for the next allocation and never returned to the system before the group's end: it
// is made for few, large and long-lived buffers.
//
// Threads: all. The memory outlives the arena's owner: each Allocation holds the arena, and the arena the region.
#pragma once
#include <cstdint>
#include <map>
#include <memory>

#include "tandem/base/mutex.h"
#include "tandem/shm/region.h"

namespace tandem::shm {

class Arena : public std::enable_shared_from_this<Arena> {
 public:
  Arena(std::shared_ptr<Region> region, int rank);

  /// At least one byte, aligned to a page. Freed when the last copy of the pointer is gone. Its content is that of
  /// earlier uses. Throws RunError when memory is short.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::uint64_t bytes);

 private:
  std::uint64_t take(std::uint64_t bytes);
  void give_back(std::uint64_t begin, std::uint64_t bytes);

  const std::shared_ptr<Region> region_;
  const std::uint64_t begin_, limit_;
  Mutex mutex_;
  std::uint64_t end_ TANDEM_GUARDED_BY(mutex_);                            // behind the pages that were ever taken
  std::map<std::uint64_t, std::uint64_t> free_ TANDEM_GUARDED_BY(mutex_);  // begin to bytes; no two touch
};

}  // namespace tandem::shm
