#include "tandem/app/commands/common_instructions.h"

#include <ATen/Version.h>

#include <algorithm>
#include <span>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// In ascending order; LibTorch's words for the variable that asks for them are the same in small letters.
constexpr const char* kChosenByLibTorch[] = {"DEFAULT", "AVX2", "AVX512"};

int order_of(const std::string& chosen) {
  const auto found = std::ranges::find(kChosenByLibTorch, chosen);
  return found == std::end(kChosenByLibTorch) ? 0 : static_cast<int>(found - std::begin(kChosenByLibTorch));
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
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

void require_one_choice(const std::vector<InstructionsOfRank>& of_ranks) {
  std::vector<std::string> choices;
  for (const InstructionsOfRank& its : of_ranks) {
    if (std::ranges::find(choices, its.libtorch) == choices.end()) choices.push_back(its.libtorch);
  }
  if (choices.size() == 1) return;
  std::string listed;
  for (const std::string& chosen : choices) listed += concat(listed.empty() ? "" : ", ", those_with(chosen, of_ranks));
  throw ConfigError(concat("the ranks' processors differ, and LibTorch computes with other instructions on each: ", listed,
                           ". Their results differ in the last bits, so the ranks would drift apart; start all ranks ",
                           "with ATEN_CPU_CAPABILITY=",
                           lower_case(*std::ranges::min_element(choices, {}, order_of))));
}

}  // namespace

InstructionSet common_instructions(const std::vector<InstructionsOfRank>& of_ranks) {
  require_one_choice(of_ranks);
  return std::ranges::min(of_ranks, {}, &InstructionsOfRank::own).own;
}

InstructionSet common_instructions(const learner::Ranks& ranks) {
  const std::string mine = concat(name_of(detect_instruction_set()), " ", at::get_cpu_capability());
  std::vector<InstructionsOfRank> all;
  for (const std::vector<std::byte>& bytes : ranks.gather(std::as_bytes(std::span(mine)))) {
    const std::string its(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t space = its.find(' ');
    all.push_back({.own = instruction_set(its.substr(0, space)), .libtorch = its.substr(space + 1)});
  }
  return common_instructions(all);
}

}  // namespace tandem::app
