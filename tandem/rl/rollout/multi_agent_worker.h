// rl/rollout/multi_agent_worker.h: steps one group of environments with several agents, each with its policy, and
// writes a fragment for each policy that learns.
//
// What RolloutWorker is for one agent. Everything that decides what happens belongs to the group: its environments and
// an actor for each policy, with a random stream of its own. So fragments do not depend on the replica, process or host
// that the group runs on. A policy that remembers has a state for each agent, which changes where the agent acts alone;
// such a policy collects into the worker's own memory only.
//
// Normalisers are frozen while a fragment is collected, as RolloutWorker's. A policy has one for all its agents, whose
// moments are gathered where the agents decide: of what they see then, and of the returns of their decisions. Where a
// policy does not learn, none are gathered, so its normaliser stays as it is.
//
// Threads: single-thread, the replica's or the rollout worker's that owns the group.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/rollout/decision_log.h"
#include "tandem/rl/rollout/episodes.h"
#include "tandem/rl/rollout/group_worker.h"

namespace tandem::rl {

/// One policy in one group.
/// The actor acts for all rows in every step; rows whose agent does not act are ignored.
struct PolicySeat {
  // The agents that act with this policy.
  std::vector<std::size_t> agents;
  // The observations and actions of each of these agents.
  Spec spec;
  // Acts for agents times environments rows.
  std::unique_ptr<Actor> actor;
  // Decisions are kept only where the policy learns.
  bool learns = true;
};

/// An env group whose environments have several agents, with every policy that acts in it. Row k * envs + e of a policy
/// is its k-th agent in environment e.
class MultiAgentWorker final : public GroupWorker {
 public:
  /// Every agent has one seat. `first_env`: number in the run of the group's first environment.
  MultiAgentWorker(std::unique_ptr<MultiAgentGroup> group, std::vector<PolicySeat> seats, const RolloutOptions& options,
                   int first_env);

  void reset(std::uint64_t run_seed) override;
  /// Steps the group `steps` times, into memory of the worker's own, and computes advantages; or into memory of
  /// make_fragments(), with what follows each decision in place of them. `frozen`: by policy; none where nothing is
  /// normalised. Throws EnvError. Before the first call: reset() or load().
  void collect(std::span<const Normalizers> frozen = {}, std::span<const std::unique_ptr<DecisionFragment>> into = {});
  void sample(std::int64_t /*update*/, std::span<const Normalizers> frozen) override { collect(frozen); }
  void begin_sample(std::span<const Normalizers> frozen) override { begin(frozen, {}); }
  void step_sample(std::span<const Normalizers> frozen) override;
  void end_sample() override { end(/*with_next=*/false); }
  void rest() override;
  /// By policy; null for those that do not learn.
  [[nodiscard]] std::vector<std::unique_ptr<DecisionFragment>> make_fragments() const;

  /// A column of the policy's decisions, from the last collect() into the worker's own memory. The seat must learn.
  [[nodiscard]] Fragment& fragment(std::size_t policy) override { return seats_[policy].log->fragment(); }
  void set_progress(double share) override { group_->set_progress(share); }
  [[nodiscard]] int envs() const override { return group_->size(); }
  [[nodiscard]] int steps_made() const override { return at_; }
  [[nodiscard]] std::size_t policies() const { return seats_.size(); }
  /// How many decisions the last collect() completed; of a policy that does not learn none.
  [[nodiscard]] int decisions(std::size_t policy) const;
  /// What the last collect() gathered for the policy's normaliser.
  [[nodiscard]] const NormalizerMoments& moments(std::size_t policy) const { return seats_[policy].moments; }
  /// Episodes that ended since clear_episodes(), whose memory stays for the next ones: of the environments, with the
  /// return summed over their agents, and of the agents of one policy, whose lengths are steps of the environment until
  /// their own end.
  [[nodiscard]] const std::vector<Episode>& episodes() const { return finished_; }
  [[nodiscard]] const std::vector<Episode>& episodes(std::size_t policy) const { return seats_[policy].finished; }
  void clear_episodes();

  void append_results(std::vector<double>& numbers) override;
  /// With the decisions whose outcome is not known yet.
  [[nodiscard]] std::vector<std::byte> save() const override;
  Resumed load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes) override;

 private:
  // The episode that an environment is in: the return summed over all its agents, and the steps so far.
  struct Running {
    double episode_return = 0;
    std::int64_t length = 0;
  };
  // A policy with the memory that acting needs. `values` holds the values that bootstrap.
  struct Seat {
    Seat(PolicySeat seat, const RolloutOptions& options, std::size_t envs);
    PolicySeat policy;
    AgentRows now;
    NormalizerMoments moments;
    // Of the fragment that is collected; null where nothing is normalised.
    const Normalizers* frozen = nullptr;
    // Present when the policy learns.
    std::optional<DecisionLog> log;
    std::vector<std::uint8_t> done;      // [rows]
    std::vector<float> values;           // [rows]
    std::vector<double> running_return;  // [rows]
    std::vector<Episode> finished;
  };

  // The two halves of collect() around its steps.
  void begin(std::span<const Normalizers> frozen, std::span<const std::unique_ptr<DecisionFragment>> into);
  void end(bool with_next);
  // One step of all environments, and its parts: rewards to the log, episodes of agents, episodes of environments.
  void step();
  void earn(Seat& seat);
  void record(Seat& seat, int t);
  void record_environments(int t);

  const std::unique_ptr<MultiAgentGroup> group_;
  const RolloutOptions options_;
  const int first_env_;
  // Steps of the fragment that is collected, or was last.
  int at_ = 0;
  std::vector<Seat> seats_;
  std::vector<AgentArrays> arrays_;  // by agent of the environment
  std::vector<EnvActions> actions_;  // likewise
  // By environment: how many of its agents have not ended.
  std::vector<std::size_t> in_game_;
  std::vector<Running> running_;  // by environment
  // [environments, metrics of the spec]: the group writes the rows of episodes that end, and they are read in the same
  // step.
  std::vector<double> metrics_;
  std::vector<Episode> finished_;
};

}  // namespace tandem::rl
