// rl/policy/kernels/compute.h: the numbers that products of matrices multiply, as an option of algorithms.
//
// It is an option and no instruction set, since precision is the user's to give away: nothing chooses bfloat16 by
// itself, and nothing falls back from it. Decision 0063 has the reasons. The program's configuration, which is without
// LibTorch, asks for it; the loops are in bfloat16_kernels.h.
//
// Threads: all.
#pragma once
#include <string_view>

#include "tandem/base/cpu.h"

namespace tandem::rl {

/// Sums, activations, parameters and gradients are float32 in all of them. Layers with fewer than 32 inputs or outputs
/// multiply float32 in all of them, too.
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

}  // namespace tandem::rl
