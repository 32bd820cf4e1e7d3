// base/cpu.h: which vector instructions the numeric loops of this library use.
//
// One instruction set gives the same results on every processor that has it. Two sets differ in the last bits of their
// results. So the ranks of `tandem train` agree at the start on the lowest set that all of them have, and a resumed run
// keeps that set.
//
// Threads: all.
#pragma once
#include <string_view>

/// Marks a function that becomes part of each caller and is compiled for the caller's instruction set.
#define TANDEM_INLINE [[gnu::always_inline]] inline

namespace tandem {

/// The sets in ascending order: a processor that has one set has all sets before it.
enum class InstructionSet {
  kPortable,  // what every processor of the architecture has
  kAvx2,      // AVX2 and FMA
  kAvx512,    // AVX-512 F, BW, DQ and VL
};

/// Returns "portable", "avx2" or "avx512".
[[nodiscard]] const char* name_of(InstructionSet set);
/// Returns the set of that name. Throws ConfigError that lists the names when there is none.
[[nodiscard]] InstructionSet instruction_set(std::string_view name);

/// Returns the highest set that this processor and its operating system support.
[[nodiscard]] InstructionSet detect_instruction_set();

/// Throws ConfigError that names `set` and the highest set of this processor, when this processor lacks `set`.
void require_instruction_set(InstructionSet set);

}  // namespace tandem
