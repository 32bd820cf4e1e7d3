// rl/rollout/decision_log.h: the decisions of the agents of one env group that share a policy, as rows to learn from.
//
// Agents that wait for others decide less often than the environment steps, so a row is a decision and not a step. A
// decision is complete when its agent decides again or its episode ends: all that the agent earned meanwhile is its
// reward, and discounts count decisions. What is complete goes into a fragment of one column, one decision behind the
// other; what is not stays open and goes into the next fragment, with the probability and value that it was made with.
//
// The advantages are those of gae.h along each agent's own decisions. Where a fragment ends within an episode, the next
// decision's value stands for what follows: of the agent's next observation when it acts next, else of its open
// decision. An agent that acts in every step has the rows and numbers that it would have alone.
//
// Threads: single-thread, as the env group.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/rollout/agent_rows.h"
#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

class DecisionLog {
 public:
  /// For fragments of `steps` steps.
  DecisionLog(const Spec& spec, int steps, std::size_t agents, std::size_t envs);

  /// A fragment begins; what was open stays so.
  void begin();
  /// Rows whose agent acts have decided: what they had open before is complete.
  void decide(const AgentRows& now);
  /// The step's rewards and ends. `rest` [rows]: what is added to the reward of an episode that was cut short; null:
  /// nothing.
  void earn(const AgentRows& now, const float* rest);
  /// The fragment ends; `next_value` [rows]: of the present observations. The fragment's steps are the decisions that
  /// are complete, its rows 1, and its advantages and targets computed. Valid until the next begin().
  Fragment& end(const AgentRows& now, const float* next_value, double gamma, double lambda);

  [[nodiscard]] Fragment& fragment() { return fragment_; }

  /// What is open, between fragments. Nothing of a decision is left of a log that was cleared.
  void save(StateWriter& out) const;
  void load(StateReader& in);
  void clear();

 private:
  enum class State : std::uint8_t { kNone, kOpen, kEnded };  // kEnded: complete, and not yet in the fragment
  static constexpr std::int32_t kNoDecision = -1, kEpisodeEnds = -1, kBeyondFragment = -2;

  void complete(std::size_t row);
  void compute_advantages(double gamma, double lambda);

  const int capacity_;
  Fragment fragment_;
  std::vector<AgentRows::Column> columns_;  // of the fragment
  AgentRows open_;                          // by row; `reward` is what it earned so far
  std::vector<State> state_;                // by row
  std::vector<std::int32_t> last_;          // by row: its last decision in the fragment that has none after it so far
  std::vector<std::int32_t> next_;          // by decision: the agent's next one, or kEpisodeEnds or kBeyondFragment
  std::vector<float> next_value_;           // by decision: of the one beyond the fragment
};

}  // namespace tandem::rl
