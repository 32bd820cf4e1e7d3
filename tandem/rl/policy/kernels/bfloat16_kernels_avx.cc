// The loops of bfloat16_kernels.h: with AVX-512 BF16, and the products once more with AMX. Headers come before the
// pragmas, and all code is in an unnamed namespace, because a processor without the instructions must never run a
// function that another file shares.
#include "tandem/rl/policy/kernels/bfloat16_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))), \
                             apply_to = function)
#else
// GCC 12 takes the undefined operand inside its own intrinsics for a mistake (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")
#endif

namespace tandem::rl {
namespace {
namespace vectors {

constexpr int kTileRows = 6, kTileColumns = 4;

// A tile of C, kRows x kColumns vectors, stays in registers over the whole depth.
template <int kRows, int kColumns>
void product_tile(const PairProduct& p, std::int64_t m, std::int64_t n) {
  using Start = Product<float>::Start;
  __m512 sum[kRows][kColumns];
  float* const c = p.c + m * p.c_stride + n;
  for (int r = 0; r < kRows; ++r) {
    const __m512 start = _mm512_set1_ps(p.start == Start::kBias ? p.bias[m + r] : 0.0F);
    for (int v = 0; v < kColumns; ++v)
      sum[r][v] = p.start == Start::kKeep ? _mm512_loadu_ps(c + r * p.c_stride + v * kPanel) : start;
  }
  const std::uint32_t *a = p.a + m * p.a_stride, *b = p.b + n;
  for (std::int64_t k = 0; k < p.pairs; ++k, ++a, b += p.b_stride) {
    __m512i right[kColumns];
    for (int v = 0; v < kColumns; ++v) right[v] = _mm512_loadu_si512(b + v * kPanel);
    for (int r = 0; r < kRows; ++r) {
      const __m512i left = _mm512_set1_epi32(static_cast<int>(a[r * p.a_stride]));
      for (int v = 0; v < kColumns; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)left, (__m512bh)right[v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kColumns; ++v) _mm512_storeu_ps(c + r * p.c_stride + v * kPanel, sum[r][v]);
  }
}

// The rows that are left when tiles of kTileRows do not fit any more.
template <int kRows, int kColumns>
void product_rest(const PairProduct& p, std::int64_t m, std::int64_t n) {
  if constexpr (kRows > 0) {
    if (p.rows - m == kRows) {
      product_tile<kRows, kColumns>(p, m, n);
    } else {
      product_rest<kRows - 1, kColumns>(p, m, n);
    }
  }
}

// All rows of C in kColumns vectors from column n on.
template <int kColumns>
void product_columns(const PairProduct& p, std::int64_t n) {
  std::int64_t m = 0;
  for (; m + kTileRows <= p.rows; m += kTileRows) product_tile<kTileRows, kColumns>(p, m, n);
  product_rest<kTileRows - 1, kColumns>(p, m, n);
}

template <int kColumns>
void product_last_columns(const PairProduct& p, std::int64_t n) {
  if constexpr (kColumns > 0) {
    if (p.columns - n == kColumns * kPanel) {
      product_columns<kColumns>(p, n);
    } else {
      product_last_columns<kColumns - 1>(p, n);
    }
  }
}

void multiply(const PairProduct& p) {
  std::int64_t n = 0;
  for (; n + kTileColumns * kPanel <= p.columns; n += kTileColumns * kPanel) product_columns<kTileColumns>(p, n);
  product_last_columns<kTileColumns - 1>(p, n);
}

// Bits of the first `count` of sixteen lanes.
__mmask16 first_lanes(std::int64_t count) {
  return count >= kPanel ? __mmask16{0xffff} : static_cast<__mmask16>((1U << static_cast<unsigned>(count)) - 1U);
}

__m256i rounded(__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); }

void pair_columns(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                  std::uint32_t* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < rows; ++r, from += from_stride, to += to_stride) {
    for (std::int64_t c = 0; c < 2 * pairs_of(columns); c += kPanel) {
      const __mmask16 lanes = first_lanes(columns > c ? columns - c : 0);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c / 2), rounded(_mm512_maskz_loadu_ps(lanes, from + c)));
    }
  }
}

void pair_rows(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns, std::uint32_t* to,
               std::int64_t to_stride) {
  for (std::int64_t r = 0; r < 2 * pairs_of(rows); r += 2, from += 2 * from_stride, to += to_stride) {
    for (std::int64_t c = 0; c < padded(columns); c += kPanel) {
      const __mmask16 lanes = first_lanes(columns - c);
      const __mmask16 upper = r < rows ? lanes : __mmask16{0}, lower = r + 1 < rows ? lanes : __mmask16{0};
      const __m512i low = _mm512_cvtepu16_epi32(rounded(_mm512_maskz_loadu_ps(upper, from + c)));
      const __m512i high = _mm512_cvtepu16_epi32(rounded(_mm512_maskz_loadu_ps(lower, from + from_stride + c)));
      _mm512_storeu_si512(to + c, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

// Words are moved as the floats of a PatchProduct; a fused multiply-add of them adds two products.
struct V {
  static constexpr int kTileRows = vectors::kTileRows, kTileColumns = vectors::kTileColumns, kWidth = kPanel;
  static __m512 load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, __m512 a) { _mm512_storeu_ps(p, a); }
  static __m512 set(float a) { return _mm512_set1_ps(a); }
  static __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
  static __m512 max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
};
using Real = float;
using Reg = __m512;

#include "tandem/rl/policy/kernels/images/patch_product.inc"

void pair_neighbours(const float* from, std::int64_t count, std::uint32_t* to) {
  for (std::int64_t i = 0; i < count; i += 2 * kPanel) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + kPanel), _mm512_loadu_ps(from + i));
    _mm512_storeu_si512(to + i / 2, (__m512i)both);
  }
}

void pair_lines(const float* first, const float* second, std::int64_t count, std::uint32_t* to) {
  for (std::int64_t i = 0; i < count; i += kPanel) {
    const __m512i low = _mm512_cvtepu16_epi32(rounded(_mm512_loadu_ps(first + i)));
    const __m512 beside = second != nullptr ? _mm512_loadu_ps(second + i) : _mm512_setzero_ps();
    const __m512i high = _mm512_cvtepu16_epi32(rounded(beside));
    _mm512_storeu_si512(to + i, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

}  // namespace vectors
}  // namespace

const Bfloat16Patches& vector_bfloat16_patches() {
  static constexpr Bfloat16Patches kAll{.multiply = vectors::multiply_patches,
                                        .pair_neighbours = vectors::pair_neighbours,
                                        .pair_lines = vectors::pair_lines,
                                        .sums = Bfloat16Patches::Sums::kInputsByOutputs};
  return kAll;
}

const Bfloat16Kernels& vector_bfloat16_kernels() {
  static constexpr Bfloat16Kernels kAll{
      .multiply = vectors::multiply, .pair_columns = vectors::pair_columns, .pair_rows = vectors::pair_rows};
  return kAll;
}

}  // namespace tandem::rl

#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16"))), apply_to = function)
#else
#pragma GCC pop_options
#endif

namespace tandem::rl {
namespace {
namespace tiles {

struct TileShape;

// Tiles have no type in C++, so compilers keep nothing in them and need not be told which ones change.
struct Amx {
  template <int I>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(I));
  }
  template <int I>
  static void load(const void* from, std::int64_t bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(bytes), "i"(I) : "memory");
  }
  template <int I>
  static void store(void* to, std::int64_t bytes) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(bytes), "i"(I) : "memory");
  }
  template <int C, int A, int B>
  static void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2" : : "i"(B), "i"(A), "i"(C));
  }
  static void configure(const TileShape& shape);
};

#include "tandem/rl/policy/kernels/bfloat16_tiles.inc"
//
#include "tandem/rl/policy/kernels/images/patch_tiles.inc"

// Eight tiles, of 16 rows of 64 bytes unless otherwise said (Intel's manual, "TILECFG").
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[8] = {64, 64, 64, 64, 64, 64, 64, 64}, no_bytes[8] = {};
  std::uint8_t rows[8] = {16, 16, 16, 16, 16, 16, 16, 16}, no_rows[8] = {};
};
static_assert(sizeof(TileConfig) == 64);

void configure(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" : : "m"(config)); }

void Amx::configure(const TileShape& shape) {
  const auto upper = static_cast<std::uint8_t>(shape.upper), lower = static_cast<std::uint8_t>(shape.lower);
  const auto depth = static_cast<std::uint8_t>(shape.depth);
  const auto of_a = static_cast<std::uint16_t>(4 * shape.depth);
  tiles::configure(TileConfig{.bytes = {64, 64, 64, 64, of_a, of_a, 64, 64},
                              .rows = {upper, upper, lower, lower, upper, lower, depth, depth}});
}

// The shape of tiles belongs to the thread; it is set for each product and given up after it, so that switching to
// another thread has nothing to save.
void multiply(const PairProduct& p) {
  static constexpr TileConfig kWhole{};
  configure(kWhole);
  multiply_in_tiles<Amx>(p);
  __asm__ volatile("tilerelease");
}

void multiply_patches(const PatchProduct<float>& p) {
  multiply_patches_in_tiles<Amx>(p);
  __asm__ volatile("tilerelease");
}

}  // namespace tiles
}  // namespace

const Bfloat16Patches& tile_bfloat16_patches() {
  static constexpr Bfloat16Patches kAll{.multiply = tiles::multiply_patches,
                                        .pair_neighbours = vectors::pair_neighbours,
                                        .pair_lines = vectors::pair_lines,
                                        .sums = Bfloat16Patches::Sums::kOutputsByInputs};
  return kAll;
}

const Bfloat16Kernels& tile_bfloat16_kernels() {
  static constexpr Bfloat16Kernels kAll{
      .multiply = tiles::multiply, .pair_columns = vectors::pair_columns, .pair_rows = vectors::pair_rows};
  return kAll;
}

}  // namespace tandem::rl

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
