// rl/rollout/group_results.h: what env groups report to the whole run after a fragment: finished episodes, moments for
// the normalisers and, with several agents, each policy's episodes and decisions, as numbers that travel between ranks.
//
// Threads: single-thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/episodes.h"

namespace tandem::rl {

/// The results of all groups of the run, added up in their order.
struct GroupResults {
  /// Results of one policy's agents in all env groups.
  struct OfPolicy {
    std::vector<Episode> episodes;
    std::int64_t decisions = 0;    // that are complete, in fragments to learn from
    std::int64_t most_pieces = 0;  // of one group: what minibatches are made of, decisions or sequences of them
  };
  std::vector<Episode> episodes;   // of environments
  std::vector<OfPolicy> policies;  // none where environments have one agent
  std::size_t metrics = 0;         // of an episode of environments, as their spec has them; those of agents have none

  /// Leaves the policies and the number of metrics, and memory as it is.
  void clear();
};

/// Adds what GroupWorker::append_results() wrote of whole groups, one behind the other: the moments of each seat, which
/// are merged into its normalisers; the episodes of the environments; and, with several agents, for each policy its
/// episodes and its numbers of decisions and of pieces. `memory`: moments of each seat's sizes, which are overwritten.
/// Throws InvariantError when the numbers do not add up.
void take_results(std::span<const double> numbers, std::span<NormalizerMoments> memory,
                  std::span<Normalizers> normalizers, GroupResults& results);

/// Writes how many episodes there are, and each as four numbers, return, length, step and row, and its metrics. All are
/// exact in float64.
void append_episodes(const std::vector<Episode>& episodes, std::vector<double>& numbers);

}  // namespace tandem::rl
