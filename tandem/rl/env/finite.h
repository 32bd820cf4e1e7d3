// rl/env/finite.h: finds the first value that is not finite. Cheap enough to look at every observation of every step.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::rl {

/// Index of the first NaN or infinity.
template <typename Real>
[[nodiscard]] std::optional<std::size_t> first_not_finite(std::span<const Real> values) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<Real>::infinity());
  // No early exit, and integers instead of isfinite(): so the compiler turns the loop into vector instructions.
  Bits found = 0;
  for (const Real value : values) found |= static_cast<Bits>((std::bit_cast<Bits>(value) & kExponent) == kExponent);
  if (found == 0) return std::nullopt;
  std::size_t index = 0;
  while (std::isfinite(values[index])) ++index;
  return index;
}

}  // namespace tandem::rl
