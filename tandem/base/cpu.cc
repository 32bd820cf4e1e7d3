#include "tandem/base/cpu.h"

#include <algorithm>
#include <array>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

constexpr std::array kNames{"portable", "avx2", "avx512"};  // in the order of InstructionSet

}  // namespace

const char* name_of(InstructionSet set) {
  const auto index = static_cast<std::size_t>(set);
  return index < kNames.size() ? kNames[index] : "unknown";  // a message about a wrong set needs a name, too
}

InstructionSet instruction_set(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found != kNames.end()) return static_cast<InstructionSet>(found - kNames.begin());
  throw ConfigError(concat("instruction set '", name, "' must be portable, avx2 or avx512"));
}

InstructionSet detect_instruction_set() {
#if defined(__x86_64__)
  // The compiler's probe also checks that the operating system saves the wide registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  // Each set includes the one below it, which lets sets be compared by their numbers.
  if (avx2 && avx512) return InstructionSet::kAvx512;
  if (avx2) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kPortable;
}

void require_instruction_set(InstructionSet set) {
  const InstructionSet here = detect_instruction_set();
  // A higher number is a larger set.
  if (set > here) {
    throw ConfigError(concat(
        "instruction set ", name_of(set), " was asked for, and this processor has ", name_of(here),
        ": a run keeps the instruction set that it began with; begin runs that are to move between machines, or ",
        "to get ranks on others, with the lowest that all have"));
  }
}

}  // namespace tandem
