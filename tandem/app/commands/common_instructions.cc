#include <ATen/Version.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "tandem/app/commands/run_ranks.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

struct Capability {
  std::string_view chosen, asked_by;  // as LibTorch says it, and as the variable does
};
constexpr std::array<Capability, 3> kCapabilities{{{"DEFAULT", "default"}, {"AVX2", "avx2"}, {"AVX512", "avx512"}}};

// In kCapabilities, which ascend; the first of words that are not there.
// Unknown words count as the lowest, so the advice is one that every processor has.
std::size_t order_of(std::string_view chosen) {
  const auto* const found = std::ranges::find(kCapabilities, chosen, &Capability::chosen);
  return found == kCapabilities.end() ? 0 : static_cast<std::size_t>(found - kCapabilities.begin());
}

// "AVX2 on ranks 1, 3".
std::string those_with(const std::string& chosen, const std::vector<InstructionsOfRank>& of_ranks) {
  std::string ranks;
  int count = 0;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank].libtorch != chosen) continue;
    ranks += concat(count++ == 0 ? "" : ", ", rank);
  }
  return concat(chosen, count == 1 ? " on rank " : " on ranks ", ranks);
}

}  // namespace

std::vector<InstructionsOfRank> instructions_of(const learner::Ranks& ranks) {
  // The two words travel as text "avx2 AVX2": names of sets have no space.
  const std::string mine = concat(name_of(detect_instruction_set()), " ", at::get_cpu_capability());
  std::vector<InstructionsOfRank> all;
  for (const std::vector<std::byte>& bytes : ranks.gather(std::as_bytes(std::span(mine)))) {
    const std::string its(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t space = its.find(' ');
    all.push_back({.own = instruction_set(its.substr(0, space)), .libtorch = its.substr(space + 1)});
  }
  return all;
}

InstructionSet lowest_of(const std::vector<InstructionsOfRank>& of_ranks) {
  return std::ranges::min(of_ranks, {}, &InstructionsOfRank::own).own;
}

void require_one_choice(const std::vector<InstructionsOfRank>& of_ranks) {
  std::vector<std::string> choices;
  for (const InstructionsOfRank& its : of_ranks) {
    if (std::ranges::find(choices, its.libtorch) == choices.end()) choices.push_back(its.libtorch);
  }
  if (choices.size() == 1) return;
  // The advice is the lowest, since only that runs on every processor.
  const std::size_t lowest = order_of(*std::ranges::min_element(choices, {}, order_of));
  throw ConfigError(concat("LibTorch computes with other instructions from rank to rank: ",
                           joined(choices, [&](const std::string& chosen) { return those_with(chosen, of_ranks); }),
                           "; their processors differ, or ATEN_CPU_CAPABILITY does. Their results would differ in the ",
                           "last bits, and the ranks drift apart; start all ranks with ATEN_CPU_CAPABILITY=",
                           kCapabilities[lowest].asked_by));
}

}  // namespace tandem::app
