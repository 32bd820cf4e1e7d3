// app/commands/common_instructions.h: the vector instructions that the processors of all ranks have.
//
// Another set gives other last bits, so ranks that each took their own best would have the numbers of no single
// machine, and, where each updates parameters of its own, drift apart.
//
// There are two sets: Tandem's own loops, which can be told to use a lower one, and LibTorch's, which is fixed once
// LibTorch has chosen. So the former is agreed on, and the latter must agree.
#pragma once
#include <string>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/learner/ranks.h"

namespace tandem::app {

struct InstructionsOfRank {
  InstructionSet own = InstructionSet::kPortable;  // the most that Tandem's loops could use there
  std::string libtorch = {};                       // what LibTorch has chosen for itself, as it calls it
};

/// Returns the instructions of each rank. Collective.
/// Element r is of rank r. Waits for all ranks; throws as Ranks::gather() does.
[[nodiscard]] std::vector<InstructionsOfRank> instructions_of(const learner::Ranks& ranks);

/// The most that all have of Tandem's.
/// `of_ranks` has at least one element.
[[nodiscard]] InstructionSet lowest_of(const std::vector<InstructionsOfRank>& of_ranks);

/// Throws ConfigError where LibTorch has not chosen alike, naming what it chose on each rank and the variable that has
/// it.
void require_one_choice(const std::vector<InstructionsOfRank>& of_ranks);

}  // namespace tandem::app
