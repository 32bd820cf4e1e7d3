// shm/region.h: the memory that the ranks of a host group share: the control block, then an arena for each rank.
//
// It is one memfd of a fixed size, far larger than what is ever used: address space only. Pages are taken by back(),
// before anybody writes to them, so that shortage is an error and not a SIGBUS. The memfd has no name anywhere: it is
// gone when the last process that mapped it is.
//
// Threads: all. Owners: whoever may still look at the memory holds a shared pointer to the region.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tandem/base/descriptor.h"
#include "tandem/shm/control_block.h"

namespace tandem::shm {

class Region {
 public:
  /// A new one, with a control block for `ranks` ranks. Throws RunError when the system refuses.
  static std::shared_ptr<Region> create(int ranks);
  /// The one that another process created. Throws RunError when it cannot be mapped.
  static std::shared_ptr<Region> open(Descriptor memory);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] ControlBlock& control() const { return *reinterpret_cast<ControlBlock*>(base_); }
  [[nodiscard]] int descriptor() const { return memory_.get(); }

  /// Where the arena of `rank` begins, as an offset in the region, and how long each arena is.
  [[nodiscard]] std::uint64_t arena_begin(int rank) const;
  [[nodiscard]] std::uint64_t arena_bytes() const;

  /// Takes pages for [begin, begin + bytes). Throws RunError, naming what is left, when there is not enough memory.
  /// Fault point: shm.back.
  void back(std::uint64_t begin, std::uint64_t bytes) const;

  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  [[nodiscard]] bool contains(const void* data) const { return data >= base_ && data < base_ + bytes_; }
  [[nodiscard]] std::uint64_t offset_of(const void* data) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - base_);
  }

 private:
  Region(Descriptor memory, std::uint64_t bytes);

  const Descriptor memory_;
  const std::uint64_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace tandem::shm
