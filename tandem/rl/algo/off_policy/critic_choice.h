// rl/algo/off_policy/critic_choice.h: which critics' slow copies a target is computed with.
//
// REDQ (Chen, Wang, Zhou, Ross, "Randomized Ensembled Double Q-Learning", 2021, algorithm 1) draws a few of them in
// each optimizer step. The draw follows from the step's seed alone, so all shards have the same one on any topology,
// and after a resume.
//
// Threads: all.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/algo/off_policy/critic_options.h"

namespace tandem::rl {

/// Different places, in ascending order; all of them where options.target_critics says nothing. Every choice is equally
/// likely. `seed`: of the step (OffPolicyAgent::Turn).
[[nodiscard]] inline std::vector<std::size_t> chosen_critics(const CriticOptions& options, std::uint64_t seed) {
  std::vector<std::size_t> places(static_cast<std::size_t>(options.critics));
  std::iota(places.begin(), places.end(), std::size_t{0});
  const auto wanted = static_cast<std::size_t>(options.target_critics.value_or(options.critics));
  if (wanted >= places.size()) return places;
  Philox random(seed);
  shuffle(std::span(places), random);
  places.resize(wanted);
  std::ranges::sort(places);
  return places;
}

}  // namespace tandem::rl
