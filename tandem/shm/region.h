// shm/region.h: the memory that the ranks of a host group share: the control block, and then an arena for each rank.
//
// The region is one memfd of a fixed size, far larger than needed: this takes address space only. back() takes pages
// before anybody writes to them, so that a shortage of memory is an error and not a SIGBUS. The memfd has no name
// anywhere, and is gone when the last process that has mapped it is gone.
//
// Threads: all. Ownership: everybody who may still look at the memory holds a shared pointer to the region.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tandem/base/descriptor.h"
#include "tandem/shm/control_block.h"

namespace tandem::shm {

class Region {
 public:
  /// Makes a region with a control block for `ranks` ranks. Throws RunError when the system refuses.
  static std::shared_ptr<Region> create(int ranks);
  /// Maps the region that another process created. Throws RunError when it cannot be mapped.
  static std::shared_ptr<Region> open(Descriptor memory);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] ControlBlock& control() const { return *reinterpret_cast<ControlBlock*>(base_); }
  /// The memfd's number, which stays owned here; it is sent to the other ranks when they meet.
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
  // Maps the whole of the memory at any address that is free.
  Region(Descriptor memory, std::uint64_t bytes);

  const Descriptor memory_;
  const std::uint64_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace tandem::shm
