// Four floats at a time, by the vector extension of GCC and Clang: SSE2 on x86, NEON on Arm. Products are rounded
// before they are added, since not every processor can fuse the two.
#include <cstring>
#include <initializer_list>

#include "tandem/rl/policy/kernels/block_kernels.h"

namespace tandem::rl {
namespace {

struct V {
  using Real = float;
  using Register __attribute__((vector_size(16))) = float;
  using Integers __attribute__((vector_size(16))) = std::int32_t;
  static constexpr int kWidth = 4, kRows = 2, kPanels = 1;
  static constexpr int kTileRows = 6, kTileColumns = 2;
  static Register load(const float* p) {
    Register a;
    std::memcpy(&a, p, sizeof a);
    return a;
  }
  static void store(float* p, Register a) { std::memcpy(p, &a, sizeof a); }
  static Register set(float a) { return Register{a, a, a, a}; }
  static Register add(Register a, Register b) { return a + b; }
  static Register sub(Register a, Register b) { return a - b; }
  static Register mul(Register a, Register b) { return a * b; }
  static Register div(Register a, Register b) { return a / b; }
  static Register fma(Register a, Register b, Register c) { return a * b + c; }
  static Register min(Register a, Register b) { return select(a < b, a, b); }
  static Register max(Register a, Register b) { return select(a > b, a, b); }
  // Beyond 2^23 floats have no fraction left: adding and subtracting 1.5 * 2^23 rounds to nearest.
  static Register round(Register a) { return (a + set(12582912.0F)) - set(12582912.0F); }
  static Register power_of_two(Register a) { return (Register)((__builtin_convertvector(a, Integers) + 127) << 23); }
  static Register absolute(Register a) { return (Register)((Integers)a & 0x7fffffff); }
  static Register with_sign(Register magnitude, Register sign) {
    return (Register)((Integers)magnitude | ((Integers)sign & ~0x7fffffff));
  }
  static Register positive(Register x, Register a, Register b) { return select(x > 0.0F, a, b); }
  static Register exponent(Register a) { return __builtin_convertvector(((Integers)a >> 23) - 127, Register); }
  static Register mantissa(Register a) { return (Register)(((Integers)a & 0x007fffff) | 0x3f800000); }
  static Register same(Register x, Register y, Register a, Register b) { return select(x == y, a, b); }
  static Register interleave_low(Register a, Register b) { return Register{a[0], b[0], a[1], b[1]}; }
  static Register interleave_high(Register a, Register b) { return Register{a[2], b[2], a[3], b[3]}; }

 private:
  static Register select(Integers mask, Register a, Register b) {
    return (Register)((mask & (Integers)a) | (~mask & (Integers)b));
  }
};

#include "tandem/rl/policy/kernels/vector_functions.inc"
//
#include "tandem/rl/policy/kernels/activations.inc"
//
#include "tandem/rl/policy/kernels/mlp_kernels.inc"
//
#include "tandem/rl/policy/kernels/block_kernels.inc"

}  // namespace

const SetKernels* portable_kernels() {
  static constexpr SetKernels kAll{kKernels, kBlockKernels};
  return &kAll;
}

}  // namespace tandem::rl
