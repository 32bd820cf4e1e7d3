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
#include <string_view>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"

namespace tandem::rl {

/// The numbers that products of matrices multiply. Sums, activations, parameters and gradients are float32 in all of
/// them. Layers with fewer than 32 inputs or outputs multiply float32 in all of them, too.
enum class Compute {
  kFloat32,
  kBfloat16,       // by AVX-512 BF16
  kBfloat16Tiles,  // by AMX
};

/// "float32", "bfloat16", "bfloat16_tiles".
[[nodiscard]] const char* name_of(Compute compute);
/// The Compute of that name. Throws ConfigError listing the names.
[[nodiscard]] Compute compute(std::string_view name);
/// Throws ConfigError that names what is missing when this processor, its operating system or `set`, which must be
/// kAvx512, cannot multiply so. The first call for kBfloat16Tiles asks Linux for the tiles' memory, for the process.
void require_compute(Compute compute, InstructionSet set);

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

/// Throws ConfigError as require_compute() does for kAvx512, and InvariantError for kFloat32.
[[nodiscard]] const Bfloat16Kernels& bfloat16_kernels(Compute compute);

/// The loops of bfloat16_kernels_avx.cc, on x86-64 alone.
[[nodiscard]] const Bfloat16Kernels& vector_bfloat16_kernels();
[[nodiscard]] const Bfloat16Kernels& tile_bfloat16_kernels();

}  // namespace tandem::rl
