// base/equal_parts.h: a vector's elements shared out to the members of a group, one equal part each.
//
// Parts end at multiples of kGrain elements, a cache line of the smallest type: no two members write to one line, and
// sums are of whole vectors. Plain values.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tandem {

class EqualParts {
 public:
  EqualParts(std::int64_t elements, int parts)
      : elements_(elements), grains_((elements + kGrain - 1) / kGrain), parts_(parts) {}

  /// Part p is the elements begin(p) .. begin(p + 1) - 1; begin(parts) is the number of elements.
  [[nodiscard]] std::int64_t begin(std::int64_t part) const {
    return std::min(grains_ * part / parts_ * kGrain, elements_);
  }
  /// No part has more elements.
  [[nodiscard]] std::int64_t largest() const { return (grains_ + parts_ - 1) / parts_ * kGrain; }

 private:
  static constexpr std::int64_t kGrain = 32;
  std::int64_t elements_, grains_, parts_;
};

}  // namespace tandem
