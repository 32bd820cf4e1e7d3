// Four floats at a time, by the vector extension of GCC and Clang: SSE2 on x86, NEON on Arm. Products are rounded
// before they are added, since not every processor can fuse the two.
#include <cstring>
#include <initializer_list>

#include "tandem/rl/policy/mlp_kernels.h"

namespace tandem::rl {
namespace {

struct V {
  using Register __attribute__((vector_size(16))) = float;
  using Integers __attribute__((vector_size(16))) = std::int32_t;
  static constexpr int kWidth = 4, kRows = 2, kPanels = 1;
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

 private:
  static Register select(Integers mask, Register a, Register b) {
    return (Register)((mask & (Integers)a) | (~mask & (Integers)b));
  }
};

#include "tandem/rl/policy/mlp_kernels.inc"

}  // namespace

const MlpKernels* portable_mlp_kernels() { return &kKernels; }

}  // namespace tandem::rl
