// app/train/evaluate_agents.h: plays episodes of several agents with the policies of a checkpoint.
//
// An agent may end before the others; its return and its length stop there. The function runs on the calling thread and
// blocks until every agent of every counted episode has ended. It throws as evaluate() and load_policy() do.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/app/train/evaluate.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

struct AgentEvaluation {
  std::string agent, policy;  // their names
  Evaluation played;          // lengths: steps of the environment until the agent's own end
};

struct AgentsEvaluation {
  Evaluation whole;                     // returns summed over the agents, lengths until the last one's end
  std::vector<AgentEvaluation> agents;  // in the environment's order
};

/// As evaluate(). With Acting::kSample actions are drawn, from streams that `seed` decides.
[[nodiscard]] AgentsEvaluation evaluate_agents(const model::Checkpoint& checkpoint, const TrainOptions& options,
                                               const rl::MultiAgentEntry& entry, rl::Acting acting,
                                               std::int64_t episodes, std::uint64_t seed);

}  // namespace tandem::app
