// app/commands/common_instructions.h: the vector instructions that the processors of all ranks have.
//
// Another set gives other last bits, so ranks that each took their own best would have the numbers of no single machine,
// and, where each updates parameters of its own, drift apart.
#pragma once
#include <string>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/learner/ranks.h"

namespace tandem::app {

struct InstructionsOfRank {
  InstructionSet own = InstructionSet::kPortable;  // of Tandem's loops
  std::string libtorch = {};                       // as LibTorch calls what it chose
};

/// The most that all have of Tandem's own. LibTorch chooses for itself in each process: throws ConfigError, naming what
/// each rank's chose and the variable that has them choose alike, where they differ.
[[nodiscard]] InstructionSet common_instructions(const std::vector<InstructionsOfRank>& of_ranks);

/// The same of ranks that have met; collective, and where it throws, all throw.
[[nodiscard]] InstructionSet common_instructions(const learner::Ranks& ranks);

}  // namespace tandem::app
