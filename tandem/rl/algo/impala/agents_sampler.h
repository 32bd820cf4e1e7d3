// rl/algo/agents_sampler.h: a rollout worker's env groups of several agents, and its policies, of which those that are
// trained take the learners' newest weights before each fragment.
//
// Threads: single-thread, the rollout worker's; constructed, saved and loaded by others while that rests.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "tandem/pipeline/published.h"
#include "tandem/rl/algo/impala/weights.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/agent_results.h"
#include "tandem/rl/rollout/multi_agent_worker.h"

namespace tandem::rl {

/// A slot of the queue between rollout workers and loaders: memory that is made once.
struct QueuedDecisions {
  std::vector<std::vector<std::unique_ptr<DecisionFragment>>> groups;  // by shard of this rank, by policy that learns
  std::vector<double> results;                                         // of the groups; see agent_results.h
};

class AgentsSampler {
 public:
  /// `policies`: on the CPU, with which the groups' actors act, by policy. `trained`: by policy.
  AgentsSampler(std::vector<std::shared_ptr<ActorCritic>> policies, std::vector<bool> trained,
                std::vector<std::unique_ptr<MultiAgentWorker>> groups);

  /// Memory for a batch.
  [[nodiscard]] QueuedDecisions make_slot() const;
  /// Collects a batch with the newest weights of those that are trained, and returns their version. Throws EnvError.
  std::int64_t collect(pipeline::Published<std::vector<Weights>>& newest, QueuedDecisions& into);
  /// The next fragment takes the newest though their version is that of the last one.
  void forget() { version_ = -1; }

  [[nodiscard]] ActorCritic& policy(std::size_t policy) { return *policies_[policy]; }
  [[nodiscard]] std::span<const std::unique_ptr<MultiAgentWorker>> groups() const { return groups_; }

 private:
  const std::vector<std::shared_ptr<ActorCritic>> policies_;
  const std::vector<std::unique_ptr<MultiAgentWorker>> groups_;
  std::vector<Weights> weights_;  // of those that are trained, alive
  std::int64_t version_ = -1;
};

}  // namespace tandem::rl
