// rl/rollout/agent_results.h: what env groups of several agents report to the whole run after a fragment: finished
// episodes, of environments and of each policy's agents, and how many decisions each policy made, as numbers that
// travel between ranks.
//
// Threads: single-thread.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/rollout/episodes.h"

namespace tandem::rl {

/// The results of all groups of the run, added up in their order.
struct AgentResults {
  /// Results of one policy's agents in all env groups.
  struct OfPolicy {
    std::vector<Episode> episodes;
    std::int64_t decisions = 0, most_decisions = 0;  // that are complete, in fragments to learn from; of one group
  };
  std::vector<Episode> episodes;  // of environments
  std::vector<OfPolicy> policies;

  /// Nothing of `policies`; memory stays.
  void clear();
};

/// Adds what MultiAgentWorker::append_results() wrote of the groups to `results`, which has all policies. Throws
/// InvariantError when the numbers do not add up.
/// `numbers` holds whole groups, one behind the other: episodes of the environments, then for each policy its episodes
/// and its number of decisions.
void take_results(std::span<const double> numbers, AgentResults& results);

}  // namespace tandem::rl
