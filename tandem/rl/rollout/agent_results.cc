#include "tandem/rl/rollout/agent_results.h"

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {

void AgentResults::clear() {
  episodes.clear();
  for (OfPolicy& policy : policies) {
    policy.episodes.clear();
    policy.decisions = policy.most_decisions = 0;
  }
}

// The order is that of MultiAgentWorker::append_results(). Groups come one behind the other until the numbers end.
void take_results(std::span<const double> numbers, AgentResults& results) {
  while (!numbers.empty()) {
    take_episodes(numbers, results.episodes);
    for (AgentResults::OfPolicy& policy : results.policies) {
      take_episodes(numbers, policy.episodes);
      TANDEM_CHECK(!numbers.empty(), "no number of decisions");
      const auto decisions = static_cast<std::int64_t>(numbers.front());
      numbers = numbers.subspan(1);
      policy.decisions += decisions;
      policy.most_decisions = std::max(policy.most_decisions, decisions);
    }
  }
}

}  // namespace tandem::rl
