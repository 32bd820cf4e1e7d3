// rl/algo/off_policy/options_of_choice.h: an option of a discrete choice, by chance or by its value, among those that a
// mask allows.
//
// What explores and what a target is bootstrapped with choose by the same rules, so that a policy is valued by the
// actions that it would take.
//
// Threads: all; a random stream is its owner's.
#pragma once
#include <cstdint>
#include <span>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"

namespace tandem::rl {

/// Each allowed option is equally likely. `mask`: [options], non-zero where allowed; null: all are. Throws EnvError
/// when none is. Takes one number below the count of the allowed ones from the stream.
[[nodiscard]] inline std::int64_t any_option(const std::uint8_t* mask, std::int64_t options, Philox& random) {
  const auto is_allowed = [mask](std::int64_t option) { return mask == nullptr || mask[option] != 0; };
  std::int64_t count = 0;
  for (std::int64_t option = 0; option < options; ++option) count += is_allowed(option) ? 1 : 0;
  if (count == 0) throw EnvError("an action mask allows nothing");
  auto left = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(count)));
  for (std::int64_t option = 0; option < options; ++option) {
    if (is_allowed(option) && left-- == 0) return option;
  }
  return 0;
}

/// The allowed option of the largest value, of equal ones the first; -1 when none is allowed.
[[nodiscard]] inline std::int64_t best_option(const std::uint8_t* mask, std::span<const float> values) {
  std::int64_t best = -1;
  for (std::int64_t option = 0; option < std::ssize(values); ++option) {
    if (mask != nullptr && mask[option] == 0) continue;
    if (best < 0 || values[static_cast<std::size_t>(option)] > values[static_cast<std::size_t>(best)]) best = option;
  }
  return best;
}

}  // namespace tandem::rl
