// rl/env/wrappers/affine.h: the straight line that takes one range to another, rounded where gymnasium's rescale_box()
// (gymnasium/wrappers/utils.py) rounds it, so that rescaled numbers have the same bits.
//
// Plain values. Threads: all.
#pragma once
#include "tandem/rl/env/wrappers/env_wrapper.h"

namespace tandem::rl {

/// shown = gradient * own + intercept, in the type of the numbers. Both ranges are finite, and low < high.
template <typename Real>
struct Affine {
  Real gradient = 1, intercept = 0;

  static Affine between(const ValueRange& own, const ValueRange& shown) {
    // NumPy's float128 is x86-64's long double; a type of 64 bits in its place may round otherwise in rare cases.
    const long double wide = static_cast<long double>(static_cast<Real>(own.high)) - static_cast<Real>(own.low);
    const auto gradient = static_cast<Real>(static_cast<long double>(shown.high - shown.low) / wide);
    const Real moved = gradient * -static_cast<Real>(own.low);
    return {.gradient = gradient, .intercept = static_cast<Real>(static_cast<double>(moved) + shown.low)};
  }
  [[nodiscard]] Real forward(Real own) const { return gradient * own + intercept; }
  [[nodiscard]] Real backward(Real shown) const { return (shown - intercept) / gradient; }
};

}  // namespace tandem::rl
