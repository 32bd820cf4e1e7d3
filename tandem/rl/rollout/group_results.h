// rl/rollout/group_results.h: what env groups report to the whole run after a fragment: finished episodes and moments
// for the normalisers, as numbers that travel between ranks.
//
// Threads: single-thread.
#pragma once
#include <span>
#include <vector>

#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/episodes.h"

namespace tandem::rl {

/// Reads what RolloutWorker::append_results() wrote of the groups, in their order: merges their moments into
/// `normalizers` and appends their episodes. `memory`: moments of the run's sizes, which are overwritten. Throws
/// InvariantError when the numbers do not add up.
void take_results(std::span<const double> numbers, NormalizerMoments& memory, Normalizers& normalizers,
                  std::vector<Episode>& episodes);

/// Their part of that: how many, and each.
/// An episode takes four numbers: return, length, step and row. All are exact in float64.
void append_episodes(const std::vector<Episode>& episodes, std::vector<double>& numbers);
/// Reads what append_episodes() wrote from the front of `numbers`, which then begins behind it. Throws as
/// take_results().
void take_episodes(std::span<const double>& numbers, std::vector<Episode>& episodes);

}  // namespace tandem::rl
