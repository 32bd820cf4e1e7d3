// The loops of mlp_kernels.h for AVX2 with fused multiply-add: eight floats at a time.
// The pragmas below compile this file for these instructions. Headers come before the pragmas, and all code is in an
// unnamed namespace, because a processor without the instructions must never run a function that another file shares.
#include "tandem/rl/policy/kernels/mlp_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <initializer_list>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace tandem::rl {
namespace {

struct V {
  using Real = float;
  using Register = __m256;
  static constexpr int kWidth = 8, kRows = 4, kPanels = 1;
  static constexpr int kTileRows = 6, kTileColumns = 2;
  static Register load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Register a) { _mm256_storeu_ps(p, a); }
  static Register set(float a) { return _mm256_set1_ps(a); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static Register min(Register a, Register b) { return _mm256_min_ps(a, b); }
  static Register max(Register a, Register b) { return _mm256_max_ps(a, b); }
  static Register round(Register a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Register power_of_two(Register a) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  static Register absolute(Register a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  static Register with_sign(Register magnitude, Register sign) {
    return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0F), sign));
  }
  static Register positive(Register x, Register a, Register b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
  }
  static Register exponent(Register a) {
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(a), 23), _mm256_set1_epi32(127)));
  }
  static Register mantissa(Register a) {
    return _mm256_or_ps(_mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(0x007fffff))), set(1.0F));
  }
  static Register same(Register x, Register y, Register a, Register b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_EQ_OQ));
  }
  static Register interleave_low(Register a, Register b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
  }
  static Register interleave_high(Register a, Register b) {
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
  }
};

#include "tandem/rl/policy/kernels/mlp_kernels.inc"
//
#include "tandem/rl/policy/kernels/block_kernels.inc"

}  // namespace

const SetKernels& avx2_kernels() {
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
