#include "tandem/base/cpu.h"

#include <string>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {

const char* name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

InstructionSet instruction_set(std::string_view name) {
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (name == name_of(set)) return set;
  }
  throw ConfigError(concat("instruction set '", name, "' must be portable, avx2 or avx512"));
}

InstructionSet detect_instruction_set() {
#if defined(__x86_64__)
  // The compiler's probe also checks that the operating system saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (avx2 && avx512) return InstructionSet::kAvx512;
  if (avx2) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kPortable;
}

void require_instruction_set(InstructionSet set) {
  const InstructionSet here = detect_instruction_set();
  if (set > here) {
    throw ConfigError(concat(
        "instruction set ", name_of(set), " was asked for, and this processor has ", name_of(here),
        ": a run keeps the instruction set that it began with; begin runs that are to move between machines, or ",
        "to get ranks on others, with the lowest that all have"));
  }
}

}  // namespace tandem
