// rl/algo/ppo/ppo_run.h: a whole PPO run: replicas, environments, normalisers and counters, one update at a time.
//
//     PpoRun run(setup);
//     while (run.env_steps() < setup.total_steps) print(run.update().episode_return_mean);
//
// A seat is a policy of the run with what learns it. Environments with one agent have one seat; those with several
// (PpoSetup::agents) have one for each policy of the map, which learns, if it is trained, with streams of random
// numbers derived from the run's seed and its place in the map. Env group k belongs to shard k and holds num_envs /
// shards environments.
//
// An update: each replica collects the fragments of its shards, with all policies at once, and learns from them on its
// own thread, one seat after the other; nothing but sums crosses between replicas. It has num_envs x rollout_steps
// environment steps. How many decisions a policy of several agents makes in these depends on the environment; a
// minibatch has an equal share of each shard's, so the number of minibatches is fixed and that of their rows is not.
//
// With the same shards the run has the same bits on any number of replicas and ranks, saved and loaded in between or
// not.
//
// Every rank of a run has such an object and calls the same functions; those that say so are collective. Threads: one
// thread at a time. Blocking: update() returns when all replicas are done; a failure of any ends it with that failure.
// A step of an env group that takes longer than stall_timeout is one (DeadlineExceeded), and HungThread when it has not
// come back a minute later: the run then cannot be destroyed, only the process ended.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/algo/ppo/group_rollout.h"
#include "tandem/rl/algo/ppo/ppo.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {

/// Everything that a run is made of.
struct PpoSetup : RunSetup {
  PpoOptions ppo;                                       // whose `fragments` follow from the next
  StragglerSetup stragglers;                            // whether env groups may end their rollouts before others
  WhileMissing while_missing = WhileMissing::kAllWork;  // what groups do while `ranks` are fewer than those of the run

  /// Whether groups may make different numbers of steps, which the reports then say.
  [[nodiscard]] bool has_uneven_rollouts() const {
    return stragglers.may_end_early() || while_missing == WhileMissing::kShareRests;
  }
};

class PpoRun final : public TrainingRun {
 public:
  /// Builds everything and starts the first episodes. Collective. Throws ConfigError with all faults of the options,
  /// which name what several agents do not go with, and what the factories throw.
  explicit PpoRun(PpoSetup setup);

  /// One rollout, and the learning from it of every policy that is trained. Collective; the report is the same on all
  /// ranks. Throws RunError when a policy has too few decisions to learn from.
  RunReport update() override;
  [[nodiscard]] bool all_reported() const override { return true; }
  [[nodiscard]] learner::StateParts policies() override;

  [[nodiscard]] std::int64_t updates() const override { return updates_; }
  [[nodiscard]] std::int64_t env_steps() const override { return env_steps_; }
  /// The last episodes of the environments; their returns are summed over the agents.
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  void listen_to_episodes(std::function<void(const Episode&)> told) override { episodes_.listen(std::move(told)); }
  [[nodiscard]] const PpoSetup& setup() const { return setup_; }
  /// Counts the replicas of all ranks.
  [[nodiscard]] int replicas() const override { return replicas_; }
  [[nodiscard]] int shards() const override { return setup_.shards; }
  [[nodiscard]] const learner::Ranks& ranks() const override { return setup_.ranks; }
  [[nodiscard]] Phase phase() const override;
  [[nodiscard]] std::vector<std::string> take_remarks() override { return setup_.remarks->take(); }
  [[nodiscard]] std::string why_numbers_differ() const override;
  [[nodiscard]] std::string gradients_by() const override;
  /// Describes the environment as a whole; with several agents see whole_spec().
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  /// Of one policy, by its place in the policy map.
  [[nodiscard]] const Normalizers& normalizers(std::size_t seat = 0) const { return normalizers_[seat]; }
  /// This rank's first replica's, between updates. `seat`: its place in the policy map.
  [[nodiscard]] ActorCritic& policy(std::size_t seat = 0) { return *seats_[seat].modules.front(); }

  /// Hashes the parameters' bytes in order; those of several policies, trained or not, under NAME/PARAMETER.
  [[nodiscard]] std::string params_sha256() override;
  [[nodiscard]] std::string state_sha256() override;
  /// Adds up the work of all seats, by replica. Collective.
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override;

  /// Parts that load on any topology: one for every shard and every env group, "run", and with one agent "state" (the
  /// model and its optimizer) and "normalizers"; with several "policy-NAME" (the model, and its optimizer where it is
  /// trained), "progress-NAME" and, where something is normalised, "normalizers-NAME" for each policy.
  [[nodiscard]] learner::StateParts save() override;
  GroupWorker::Resumed load(const learner::ReadPart& read_part) override;

 private:
  // Modules, teams and Ppo objects of one policy of the map; vectors by replica have the same order.
  struct Seat {
    // By replica of this rank.
    std::vector<std::shared_ptr<ActorCritic>> modules;
    // Null when the policy is not trained.
    std::unique_ptr<learner::ReplicaTeam> team;
    // By replica of this rank; none of a policy that is not trained.
    std::vector<std::unique_ptr<Ppo>> ppo;
    std::vector<std::vector<Fragment*>> fragments;  // of the replica's shards
    std::vector<LearnReport> learned;
    // Episodes of the policy's agents, where there are several.
    EpisodeWindow episodes;
  };
  struct RankNumbers;  // what a rank tells of an update, besides the results of its groups

  // Construction, in ppo_build.cc, in this order.
  void build_policies();
  void build_learner(std::size_t seat, const std::vector<sync::Placement>& placements);
  void build_rollouts(const std::vector<sync::Placement>& placements);
  void build_watch();
  [[nodiscard]] std::vector<std::optional<int>> find_working(const std::vector<sync::Placement>& placements) const;
  [[nodiscard]] std::unique_ptr<GroupWorker> make_worker(int shard, int local);
  [[nodiscard]] bool is_several() const { return setup_.agents.has_value(); }
  // How long a replica waits for the others in one step: longer than a step of an env group may hang on one of them.
  [[nodiscard]] Clock::duration patience() const {
    return std::max<Clock::duration>(std::chrono::minutes(5), 2 * std::chrono::seconds(setup_.ppo.stall_timeout));
  }
  // The team of any seat that learns: all of them have the same replicas on threads of their own.
  [[nodiscard]] learner::ReplicaTeam& any_team() const;

  // The steps of an update, in their order. collect() and learn() run on the thread of replica `local`, the others on
  // the caller's.
  void collect(std::size_t local);
  void learn(Seat& seat, learner::Member& member);
  void append_results();
  void take_results(std::span<const double> numbers);
  void clear_results();
  void gather_results();
  void require_decisions() const;
  void append_numbers();
  [[nodiscard]] RankNumbers take_numbers(std::span<const double>& numbers);
  RunReport finish_update();
  void account_rollouts(RunReport& report);

  // Checkpoints, in ppo_state.cc.
  [[nodiscard]] std::vector<PolicyState> policy_states();
  [[nodiscard]] std::int64_t load_run_part(const learner::StateParts& parts);
  void load_seat(Seat& seat, const PolicyState& state, std::int64_t passes, const learner::StateParts& parts);

  // Groups, rollouts and teams refer to members above them, so the order of members matters.
  const PpoSetup setup_;
  Spec spec_;
  const PolicyMap map_;                   // of one agent, its policy without a name
  std::vector<Normalizers> normalizers_;  // by policy
  EpisodeWindow episodes_;
  std::int64_t updates_ = 0, env_steps_ = 0;
  int replicas_ = 1;
  Range shards_;  // of this rank
  // How many env groups of the run make no steps.
  int resting_ = 0;
  std::vector<std::unique_ptr<GroupWorker>> workers_;    // by shard of this rank
  std::vector<std::unique_ptr<GroupRollout>> rollouts_;  // by replica of this rank
  // Comes before the teams, which look at it.
  std::unique_ptr<StallWatch> watch_;
  std::vector<Seat> seats_;

  // Memory of an update.
  // The share of the run that was done before the update.
  double progress_ = 0;
  std::vector<double> sample_seconds_;  // by replica of this rank
  // With several agents: how long this rank waited for the rollouts of others.
  double meeting_seconds_ = 0;
  // The numbers that this rank sends to all.
  std::vector<double> mine_;
  // The numbers that each rank has sent.
  std::vector<std::vector<double>> all_;
  std::vector<GroupWindow> groups_;           // of the run
  std::vector<std::int64_t> steps_of_ranks_;  // environment steps
  GroupResults results_;
  std::vector<NormalizerMoments> group_moments_;  // by policy
};

}  // namespace tandem::rl
