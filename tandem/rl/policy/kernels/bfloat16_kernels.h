// rl/policy/kernels/bfloat16_kernels.h: products of matrices whose factors are rounded to bfloat16, summed in float32,
// for the processors that multiply bfloat16: AVX-512 BF16 in its vectors (twice the rate of float32), AMX in its tiles.
//
// Both multiply pairs of numbers that are neighbours in the depth of the product and add the two. The left factor lies
// in rows, its pairs side by side; the right one lies in rows of pairs: word [k/2, n] holds numbers [k, n] and
// [k + 1, n]. The depth is padded with zeros to a multiple of 2 kPanel. The two differ in the order of additions, so in
// the last bits; the bits of each depend on the operands alone.
//
// Threads: any; loops write to the caller's memory alone.
#pragma once
#include <cstdint>

#include "tandem/rl/policy/kernels/compute.h"
#include "tandem/rl/policy/kernels/images/convolution_kernels.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

/// C[m, n] = start[m, n] + sum over k of A[m, k] B[k, n].
struct PairProduct {
  // The extents of m, n (a multiple of kPanel) and k/2 (a multiple of kPanel). Memory for A and C has a multiple of
  // kPanel rows; what lies beyond the rows of A is finite, and C's is overwritten.
  std::int64_t rows, columns, pairs;
  const std::uint32_t* a;  // pairs
  std::int64_t a_stride;   // from row to row, in pairs
  const std::uint32_t* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  Product<float>::Start start = Product<float>::Start::kZero;
  const float* bias = nullptr;
};

/// Pairs that `depth` numbers take, with their padding.
[[nodiscard]] constexpr std::int64_t pairs_of(std::int64_t depth) { return padded((depth + 1) / 2); }

struct Bfloat16Kernels {
  void (*multiply)(const PairProduct& product);
  /// to[r, c/2] = the pair from[r, c], from[r, c + 1], rounded to nearest even; zeros up to pairs_of(columns).
  void (*pair_columns)(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                       std::uint32_t* to, std::int64_t to_stride);
  /// to[r/2, c] = the pair from[r, c], from[r + 1, c]; zeros up to pairs_of(rows) and padded(columns).
  void (*pair_rows)(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                    std::uint32_t* to, std::int64_t to_stride);
};

/// The products of convolutions, and the two ways to make words of numbers for them. Their pairs are words that lie
/// where the numbers of a PatchProduct of floats do, so its addresses count words and a step is of two numbers.
struct Bfloat16Patches {
  /// A and B point to words, by pointers to floats: the loops move them and never compute with them but in dot
  /// products. C, the bias and the sums are float32, and what is stored may be rectified as in products of floats.
  /// In tiles the steps of A must be neighbours: a_step is 1.
  void (*multiply)(const PatchProduct<float>& product);
  /// to[i / 2] = the pair from[i], from[i + 1], for `count` numbers, a multiple of 2 kPanel.
  void (*pair_neighbours)(const float* from, std::int64_t count, std::uint32_t* to);
  /// to[i] = the pair first[i], second[i], for `count` numbers, a multiple of kPanel; second may be null: zeros.
  void (*pair_lines)(const float* first, const float* second, std::int64_t count, std::uint32_t* to);
  /// How the gradient of the weights is summed. Tiles want pixels side by side in A: of the derivatives, transposed.
  enum class Sums { kInputsByOutputs, kOutputsByInputs } sums;
};

/// Throws ConfigError as require_compute() does for kAvx512, and InvariantError for kFloat32.
[[nodiscard]] const Bfloat16Kernels& bfloat16_kernels(Compute compute);
[[nodiscard]] const Bfloat16Patches& bfloat16_patches(Compute compute);

/// The loops of bfloat16_kernels_avx.cc, on x86-64 alone.
[[nodiscard]] const Bfloat16Kernels& vector_bfloat16_kernels();
[[nodiscard]] const Bfloat16Kernels& tile_bfloat16_kernels();
[[nodiscard]] const Bfloat16Patches& vector_bfloat16_patches();
[[nodiscard]] const Bfloat16Patches& tile_bfloat16_patches();

}  // namespace tandem::rl
