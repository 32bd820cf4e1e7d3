// shm/region.h: the memory that the ranks of a host group share: the control block, and then an arena for each rank,
// which gives out that rank's part.
//
// The region is one memfd of a fixed size, far larger than needed: this takes address space only. back() takes pages
// before anybody writes to them, so that a shortage of memory is an error and not a SIGBUS. The memfd has no name
// anywhere, and is gone when the last process that has mapped it is gone. So is the file in /dev/shm that takes its
// place where a container forbids memfd_create().
//
// All ranks have mapped the region already, so allocating in an arena exchanges nothing and waits for nobody. Other
// ranks find a buffer by its offset in the region. Memory that is given back is kept for the next allocation and goes
// back to the system only at the end of the group: arenas are made for few, large and long-lived buffers.
//
// Threads: all. Ownership: everybody who may still look at the memory holds a shared pointer to the region. Each
// allocation holds its arena, and the arena holds the region, so the memory may outlive the group.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>

#include "tandem/base/descriptor.h"
#include "tandem/base/mutex.h"
#include "tandem/shm/control_block.h"

namespace tandem::shm {

class Region {
 public:
  /// Makes a region with a control block for `ranks` ranks. Throws RunError when the system refuses.
  static std::shared_ptr<Region> create(int ranks);
  /// Maps the region that another process created. Throws RunError when it cannot be mapped.
  static std::shared_ptr<Region> open(Descriptor memory);
  ~Region();

  [[nodiscard]] ControlBlock& control() const { return *reinterpret_cast<ControlBlock*>(base_); }
  /// The memory's number, which stays owned here; it is sent to the other ranks when they meet.
  [[nodiscard]] int descriptor() const { return memory_.get(); }

  /// The offset in the region at which the arena of `rank` begins, and the number of bytes of each arena.
  [[nodiscard]] std::uint64_t arena_begin(int rank) const;
  [[nodiscard]] std::uint64_t arena_bytes() const;

  /// Takes pages for [begin, begin + bytes). Throws RunError that says how much memory is free when it is not enough.
  /// Fault point: shm.back.
  void back(std::uint64_t begin, std::uint64_t bytes) const;

  /// Translates between offsets, which are the same in all processes, and addresses of this process.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  /// A payload that lies here needs no copy, since the other ranks have mapped it, too.
  [[nodiscard]] bool contains(const void* data) const { return data >= base_ && data < base_ + bytes_; }
  [[nodiscard]] std::uint64_t offset_of(const void* data) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - base_);
  }

 private:
  // The bytes that are free for this memory.
  [[nodiscard]] std::uint64_t room() const;
  // Maps the whole of the memory at any address that is free.
  Region(Descriptor memory, std::uint64_t bytes);

  const Descriptor memory_;
  const std::uint64_t bytes_;
  std::byte* base_ = nullptr;
};

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

/// Returns the bytes that are free on the host, or within the limit of this process's container where that is less
/// (cgroup version 1 or 2). Memory that the kernel gives back on demand counts as free. The result is an estimate,
/// since other processes take memory meanwhile. Without any file to read from it is the largest number. The roots are
/// where the kernel shows its files. Blocks on nothing but reading these.
[[nodiscard]] std::uint64_t free_memory(const std::filesystem::path& proc = "/proc",
                                        const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace tandem::shm
