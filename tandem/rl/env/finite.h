// rl/env/finite.h: finds the first value that is not finite.
//
// The search is cheap enough for every observation of every step: a NaN that got into a policy would show many updates
// later, far from the environment that made it.
// Threads: free functions on values.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::rl {

/// Returns the index of the first NaN or infinity; nothing when all values are finite. Reads every value even when the
/// first one is bad, which is the rare case.
template <typename Real>
[[nodiscard]] std::optional<std::size_t> first_not_finite(std::span<const Real> values) {
  using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = std::bit_cast<Bits>(std::numeric_limits<Real>::infinity());
  // There is no early exit, and bits are compared instead of isfinite() called, so that the compiler turns the loop
  // into vector instructions. A number is not finite when all bits of its exponent are set.
  Bits found = 0;
  for (const Real value : values) found |= static_cast<Bits>((std::bit_cast<Bits>(value) & kExponent) == kExponent);
  if (found == 0) return std::nullopt;
  // The search is for the message only, after something was found.
  std::size_t index = 0;
  while (std::isfinite(values[index])) ++index;
  return index;
}

}  // namespace tandem::rl
