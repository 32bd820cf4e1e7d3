#include "tandem/base/cpu.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tandem/base/error.h"

namespace tandem {
namespace {

TEST(InstructionSetTest, NamesLeadBackToTheSet) {
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    EXPECT_EQ(instruction_set(name_of(set)), set);
  }
  EXPECT_THROW((void)instruction_set("sse9"), ConfigError);
}

TEST(InstructionSetTest, DetectionAgreesWithTheKernel) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, flags;
  while (flags.empty() && std::getline(cpuinfo, line)) {
    if (line.rfind("flags", 0) == 0) flags = line + " ";
  }
  const auto has = [&](const std::string& flag) { return flags.find(" " + flag + " ") != std::string::npos; };
  const bool avx2 = has("avx2") && has("fma");
  const bool avx512 = avx2 && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  EXPECT_EQ(detect_instruction_set(), avx512 ? InstructionSet::kAvx512
                                      : avx2 ? InstructionSet::kAvx2
                                             : InstructionSet::kPortable);
}

TEST(InstructionSetTest, EveryLowerSetIsAllowedAndAHigherOneRefused) {
  const InstructionSet here = detect_instruction_set();
  EXPECT_NO_THROW(require_instruction_set(InstructionSet::kPortable));
  EXPECT_NO_THROW(require_instruction_set(here));
  EXPECT_THROW(require_instruction_set(static_cast<InstructionSet>(static_cast<int>(here) + 1)), ConfigError);
}

}  // namespace
}  // namespace tandem
