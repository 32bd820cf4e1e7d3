// The loops of mlp_kernels.h for AVX2 with fused multiply-add, eight floats at a time, and for AVX-512, sixteen.
// The pragmas below compile each half of this file for its instructions. Headers come before the pragmas, and all code
// is in an unnamed namespace, because a processor without the instructions must never run a function that another file
// shares.
#include "tandem/rl/policy/kernels/images/convolution_kernels.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <initializer_list>
#include <limits>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace tandem::rl {
namespace {
namespace avx2 {

struct Set {
  using Register = __m256;
  using Integers __attribute__((vector_size(sizeof(Register)))) = std::int32_t;
  static constexpr int kRows = 4, kPanels = 1;
  static constexpr int kTileRows = 6, kTileColumns = 2;
  static Register load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Register a) { _mm256_storeu_ps(p, a); }
  static Register set(float a) { return _mm256_set1_ps(a); }
  static Register fma(Register a, Register b, Register c) { return _mm256_fmadd_ps(a, b, c); }
  static Register min(Register a, Register b) { return _mm256_min_ps(a, b); }
  static Register max(Register a, Register b) { return _mm256_max_ps(a, b); }
  static Register round(Register a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Register square_root(Register a) { return _mm256_sqrt_ps(a); }
  static Register absolute(Register a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  static Register with_sign(Register magnitude, Register sign) {
    return _mm256_or_ps(magnitude, _mm256_and_ps(_mm256_set1_ps(-0.0F), sign));
  }
  static Register widened(const std::uint8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
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
//
#include "tandem/rl/policy/kernels/sequences/cell_kernels.inc"
//
#include "tandem/rl/policy/kernels/images/convolution_kernels.inc"

}  // namespace avx2
}  // namespace

const SetKernels& avx2_kernels() {
  static constexpr SetKernels kAll{
      {avx2::dense, avx2::activate_all}, avx2::kBlockKernels, avx2::kCellKernels, avx2::kConvolutionKernels};
  return kAll;
}

}  // namespace tandem::rl

#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
// GCC 12 takes the undefined operand inside its own intrinsics for a mistake (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

namespace tandem::rl {
namespace {
namespace avx512 {

struct Set {
  using Register = __m512;
  using Integers __attribute__((vector_size(sizeof(Register)))) = std::int32_t;
  static constexpr int kRows = 6, kPanels = 4;
  static constexpr int kTileRows = 6, kTileColumns = 4;
  static Register load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Register a) { _mm512_storeu_ps(p, a); }
  static Register set(float a) { return _mm512_set1_ps(a); }
  static Register fma(Register a, Register b, Register c) { return _mm512_fmadd_ps(a, b, c); }
  static Register min(Register a, Register b) { return _mm512_min_ps(a, b); }
  static Register max(Register a, Register b) { return _mm512_max_ps(a, b); }
  static Register round(Register a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Register square_root(Register a) { return _mm512_sqrt_ps(a); }
  static Register absolute(Register a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0F), a); }
  static Register with_sign(Register magnitude, Register sign) {
    return _mm512_or_ps(magnitude, _mm512_and_ps(_mm512_set1_ps(-0.0F), sign));
  }
  static Register widened(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static Register interleave_low(Register a, Register b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  }
  static Register interleave_high(Register a, Register b) {
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  }
};

#include "tandem/rl/policy/kernels/mlp_kernels.inc"
//
#include "tandem/rl/policy/kernels/block_kernels.inc"
//
#include "tandem/rl/policy/kernels/sequences/cell_kernels.inc"
//
#include "tandem/rl/policy/kernels/images/convolution_kernels.inc"

}  // namespace avx512
}  // namespace

const SetKernels& avx512_kernels() {
  static constexpr SetKernels kAll{
      {avx512::dense, avx512::activate_all}, avx512::kBlockKernels, avx512::kCellKernels, avx512::kConvolutionKernels};
  return kAll;
}

}  // namespace tandem::rl

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
