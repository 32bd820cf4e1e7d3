// base/equal_parts.h: divides the elements of a vector among the members of a group, one equal part for each.
//
// Parts end at multiples of kGrain elements, which is a cache line of the smallest type. So no two members write to the
// same cache line, and loops over a part use whole vector registers.
//
//   const EqualParts parts(1000, 3);
//   for (auto i = parts.begin(rank); i < parts.begin(rank + 1); ++i) sum(i);
//
// Threads: immutable.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tandem {

class EqualParts {
 public:
  EqualParts(std::int64_t elements, int parts)
      : elements_(elements), grains_((elements + kGrain - 1) / kGrain), parts_(parts) {}

  /// The first element of a part. Part p holds the elements begin(p) .. begin(p + 1) - 1; begin(parts) is the number of
  /// elements. A part is empty when there are fewer grains than parts.
  [[nodiscard]] std::int64_t begin(std::int64_t part) const {
    return std::min(grains_ * part / parts_ * kGrain, elements_);
  }
  /// An upper bound of the elements of any part, a multiple of kGrain.
  [[nodiscard]] std::int64_t largest() const { return (grains_ + parts_ - 1) / parts_ * kGrain; }

 private:
  static constexpr std::int64_t kGrain = 32;
  std::int64_t elements_, grains_, parts_;
};

}  // namespace tandem
