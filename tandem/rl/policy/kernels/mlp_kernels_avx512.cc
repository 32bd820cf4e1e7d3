// The loops of mlp_kernels.h for AVX-512: sixteen floats at a time.
// The pragmas below compile this file for these instructions. Headers come before the pragmas, and all code is in an
// unnamed namespace, because a processor without the instructions must never run a function that another file shares.
#include "tandem/rl/policy/kernels/mlp_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <initializer_list>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
// GCC 12 takes the undefined operand inside its own intrinsics for a mistake (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

namespace tandem::rl {
namespace {

struct V {
  using Real = float;
  using Register = __m512;
  static constexpr int kWidth = 16, kRows = 6, kPanels = 4;
  static constexpr int kTileRows = 6, kTileColumns = 4;
  static Register load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Register a) { _mm512_storeu_ps(p, a); }
  static Register set(float a) { return _mm512_set1_ps(a); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  static Register min(Register a, Register b) { return _mm512_min_ps(a, b); }
  static Register max(Register a, Register b) { return _mm512_max_ps(a, b); }
  static Register round(Register a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Register power_of_two(Register a) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
  }
  static Register absolute(Register a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0F), a); }
  static Register with_sign(Register magnitude, Register sign) {
    return _mm512_or_ps(magnitude, _mm512_and_ps(_mm512_set1_ps(-0.0F), sign));
  }
  static Register positive(Register x, Register a, Register b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), b, a);
  }
  static Register exponent(Register a) { return _mm512_getexp_ps(a); }
  static Register mantissa(Register a) { return _mm512_getmant_ps(a, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero); }
  static Register same(Register x, Register y, Register a, Register b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_EQ_OQ), b, a);
  }
  static Register interleave_low(Register a, Register b) {
    const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(a, order, b);
  }
  static Register interleave_high(Register a, Register b) {
    const __m512i order = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return _mm512_permutex2var_ps(a, order, b);
  }
};

#include "tandem/rl/policy/kernels/mlp_kernels.inc"
//
#include "tandem/rl/policy/kernels/block_kernels.inc"

}  // namespace

const SetKernels& avx512_kernels() {
  static constexpr SetKernels kAll{{dense, activate_all}, kBlockKernels};
  return kAll;
}

}  // namespace tandem::rl

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
