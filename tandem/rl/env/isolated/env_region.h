// rl/env/isolated/env_region.h: the memory of region_layout.h, mapped into this process.
//
// Threads: single-thread on each side. Ownership: an EnvRegion owns its mapping; the memory is gone when both sides
// have let it go. It has no name anywhere.
// Security: the memory is sealed, so that a worker cannot make it shorter under the training's feet (SIGBUS).
#pragma once
#include <cstddef>
#include <cstdint>

#include "tandem/base/descriptor.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/isolated/region_layout.h"

namespace tandem::rl {

class EnvRegion {
 public:
  /// Makes the memory, with pages behind all of it, and writes its table. Throws RunError when the system refuses.
  explicit EnvRegion(const RegionLayout& layout);
  /// Maps the memory that a training has made. Throws ConfigError for a descriptor that is no such memory.
  [[nodiscard]] static EnvRegion open(int descriptor);
  ~EnvRegion();
  EnvRegion(EnvRegion&& other) noexcept;
  EnvRegion& operator=(EnvRegion&&) = delete;

  [[nodiscard]] RegionHeader& header() const { return *reinterpret_cast<RegionHeader*>(base_); }
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return base_ + offset; }
  template <typename Value>
  [[nodiscard]] Value* array(std::uint64_t offset) const {
    return reinterpret_cast<Value*>(base_ + offset);
  }
  /// The arrays of a group, where `layout` says that they lie.
  [[nodiscard]] EnvArrays arrays(const RegionLayout& layout) const;
  [[nodiscard]] EnvActions actions(const RegionLayout& layout) const;
  /// Whether the memory has the table and the leaves of `layout`, but for what the training alone decides (spin_ns).
  [[nodiscard]] bool has(const RegionLayout& layout) const;
  /// For the other side.
  [[nodiscard]] int descriptor() const { return memory_.get(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  EnvRegion(Descriptor memory, std::uint64_t bytes);

  Descriptor memory_;
  std::uint64_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace tandem::rl
