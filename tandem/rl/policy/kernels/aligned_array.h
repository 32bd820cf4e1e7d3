// rl/policy/aligned_array.h: memory for vector loops.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tandem::rl {

/// Numbers, zero at first, that begin at a cache line.
template <typename Real>
class AlignedArray {
 public:
  explicit AlignedArray(std::int64_t count = 0)
      : data_(static_cast<Real*>(
            ::operator new[](static_cast<std::size_t>(count) * sizeof(Real), std::align_val_t{64}))) {
    std::fill(data_.get(), data_.get() + count, Real{0});
  }
  [[nodiscard]] Real* data() { return data_.get(); }
  [[nodiscard]] const Real* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(Real* data) const { ::operator delete[](data, std::align_val_t{64}); }
  };
  std::unique_ptr<Real[], Free> data_;
};

}  // namespace tandem::rl
