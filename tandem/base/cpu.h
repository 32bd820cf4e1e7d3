// base/cpu.h: which vector instructions the numeric loops of this library use.
//
// Results of one instruction set are the same on every processor that has it, and differ in the last bits from those of
// another. So the ranks of a run of `tandem train` agree on the lowest common one at the start, and a resumed run keeps
// it.
#pragma once
#include <string_view>

/// Functions that are marked so become part of their callers, and are compiled for their callers' processors.
#define TANDEM_INLINE [[gnu::always_inline]] inline

namespace tandem {

/// In ascending order: a processor that has one has all before it.
enum class InstructionSet {
  kPortable,  // what every processor of the architecture has
  kAvx2,      // AVX2 and FMA
  kAvx512,    // AVX-512 F, BW, DQ and VL
};

/// "portable", "avx2", "avx512".
[[nodiscard]] const char* name_of(InstructionSet set);
/// The set of that name. Throws ConfigError listing the names.
[[nodiscard]] InstructionSet instruction_set(std::string_view name);

/// The highest that this processor and its operating system support.
[[nodiscard]] InstructionSet detect_instruction_set();

/// Throws ConfigError naming both when this processor does not have `set`.
void require_instruction_set(InstructionSet set);

}  // namespace tandem
