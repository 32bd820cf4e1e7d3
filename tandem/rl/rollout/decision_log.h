// rl/rollout/decision_log.h: the decisions of the agents of one env group that share a policy, as rows to learn from.
//
// Agents that wait for others decide less often than the environment steps, so a row is a decision and not a step. A
// decision is complete when its agent decides again or its episode ends: all that the agent earned meanwhile is its
// reward, and discounts count decisions. What is complete goes into a fragment of one column, one decision behind the
// other; what is not stays open and goes into the next fragment, with the probability and value that it was made with.
//
// What follows a decision is the same agent's next one. Where a fragment ends within an episode, that is its open
// decision, or, when it acts next, what it sees now. For PPO the value of it that the acting policy had is used, and
// the advantages are those of compute_gae() along each agent's own decisions. For V-trace each decision is told the row
// of its next one, and what lies beyond the fragment gets rows of its own behind the decisions, for the learner to
// evaluate. An agent that acts in every step has the rows and numbers that it would have alone.
//
// Of a policy that remembers, each decision has the state that it was made from. The fragment for PPO then has the
// decisions of one agent behind those of the other, so that they can be cut into sequences (Fragment::joined).
//
// Threads: single-thread, as the env group.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/rollout/agent_rows.h"
#include "tandem/rl/rollout/fragment.h"
#include "tandem/rl/rollout/sequences.h"

namespace tandem::rl {

/// Decisions one behind the other.
/// `next` says where the same agent goes on, since decisions of all agents are mixed in the order of completion.
struct DecisionFragment {
  static constexpr std::int64_t kEpisodeEnds = -1;

  // A fragment of one column; its steps are the complete decisions.
  Fragment decisions;
  // By decision: the row that follows it for the same agent, or kEpisodeEnds.
  std::vector<std::int64_t> next;
  // Rows of observations and masks behind the decisions' rows. They only follow a decision and are none themselves.
  int beyond = 0;
  // By decision: what the policy remembered before it. Undefined where it remembers nothing.
  at::Tensor states = {};
};

/// How the decisions of a policy become rows to learn from.
struct DecisionLogOptions {
  // Whether rewards are scaled.
  bool scales = false;
  // Of what the policy remembers; 0: nothing.
  std::int64_t state_size = 0;
  // That the decisions of an agent are cut into, where the policy remembers.
  SequenceOptions sequences = {};
};

/// How the rewards of decisions are scaled: see Normalizers::scale_reward(). The objects outlive the fragment.
struct RewardScale {
  // Null: rewards stay as they are.
  const Normalizers* frozen = nullptr;
  // Takes the discounted return after each decision.
  RunningMoments* returns = nullptr;
  // From decision to decision.
  double gamma = 1;
};

/// A decision is open from the step in which its agent acts until the agent acts again or its episode ends. Rewards in
/// between belong to it. Open decisions stay across fragments.
class DecisionLog {
 public:
  /// For fragments of `steps` steps.
  /// `agents` and `envs`: of one policy in one env group; rows are as in AgentRows.
  DecisionLog(const Spec& spec, int steps, std::size_t agents, std::size_t envs,
              const DecisionLogOptions& options = {});

  /// Memory for one of them.
  [[nodiscard]] DecisionFragment make_fragment() const;

  /// A fragment begins, in the log's own memory, which is made with the first, or in the caller's; what was open stays
  /// so.
  /// Rewards are scaled as `scale` says when their decision is complete, before what it adds for a cut episode.
  void begin(const RewardScale& scale = {}) { begin(own(), scale); }
  void begin(DecisionFragment& into, const RewardScale& scale = {});
  /// Rows whose agent acts have decided: what they had open before is complete.
  void decide(const AgentRows& now);
  /// The step's rewards and ends. `rest` [rows]: what is added to the reward of an episode that was cut short; null:
  /// nothing.
  void earn(const AgentRows& now, const float* rest);
  /// The fragment ends, with advantages and targets; `next_value` [rows]: of the present observations. Valid until the
  /// next begin().
  Fragment& end(const AgentRows& now, const float* next_value, double gamma, double lambda);
  /// The fragment ends, with what follows each decision, and without advantages.
  void end_with_next(const AgentRows& now);

  /// The log's own fragment has no decisions. What was open stays so.
  void rest();

  /// Decisions of the last fragment.
  [[nodiscard]] int completed() const { return completed_; }
  /// What minibatches are made of, in the log's own last fragment: decisions, or sequences.
  [[nodiscard]] int pieces() const;
  /// The log's own.
  [[nodiscard]] Fragment& fragment() { return joined_ ? *joined_ : own().decisions; }

  /// Save and load the open decisions, between fragments; clear() forgets them.
  /// load() throws CheckpointError for bytes of another shape. Advantages are not saved: they belong to a fragment.
  void save(StateWriter& out) const;
  void load(StateReader& in);
  void clear();

 private:
  enum class State : std::uint8_t { kNone, kOpen, kEnded };  // kEnded: complete, and not yet in the fragment
  static constexpr std::int32_t kNoDecision = -1;
  static constexpr std::int64_t kEpisodeEnds = DecisionFragment::kEpisodeEnds, kBeyondFragment = -2;

  // Made with the first call: a log that writes to the caller's memory needs none of its own.
  [[nodiscard]] DecisionFragment& own();
  // Ends the row's decision, and links the agent's last decision in this fragment to it.
  void complete(std::size_t row);
  void complete_all(const AgentRows& now);
  [[nodiscard]] float learned_reward(std::size_t row);
  void compute_advantages(double gamma, double lambda);
  // Of a policy that remembers: copies the decisions in the order of their rows, with the states of their sequences.
  void join();

  const Spec spec_;
  const int capacity_;
  const DecisionLogOptions options_;
  std::unique_ptr<DecisionFragment> own_;
  // The fragment that is written, between begin() and an end.
  DecisionFragment* into_ = nullptr;
  // Columns of the fragment that is written.
  std::vector<AgentRows::Column> columns_;
  int completed_ = 0;
  // By row: the open decision; `reward` is the sum that it has earned so far.
  AgentRows open_;
  std::vector<State> state_;  // by row
  // By row: what is added to the scaled reward of a decision whose episode was cut short.
  std::vector<float> rest_;
  RewardScale scale_;
  // By row: the discounted return of the decisions that are complete. Empty where rewards are not scaled.
  std::vector<double> discounted_;
  // By decision, of a policy that remembers: the row that made it.
  std::vector<std::size_t> row_of_;
  // The decisions of the own fragment, one row's behind the other's; only of a policy that remembers.
  std::unique_ptr<Fragment> joined_;
  // By row: its last decision in the fragment that nothing follows so far, or kNoDecision.
  std::vector<std::int32_t> last_;
  // By decision: the value of what follows it beyond the fragment.
  std::vector<float> next_value_;
};

}  // namespace tandem::rl
