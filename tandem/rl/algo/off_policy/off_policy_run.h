// rl/algo/off_policy/off_policy_run.h: a whole run of an algorithm that learns from a replay.
//
//     OffPolicyRun run(setup);
//     while (run.env_steps() < setup.total_steps) print(run.update().episode_return_mean);
//
// Shard k has env group k with num_envs / shards environments, its own part of the replay, and an equal part of the
// rows of each optimizer step. Each replica steps the groups of its shards and learns from their replay parts on its
// own thread; nothing but sums of gradients crosses between replicas. What differs between SAC, TD3 and DQN is in
// OffPolicyAgent.
//
// An update is rollout_steps steps of each environment, with a turn of learning after each train_every of them, or
// beside them (Sampling), the environments of a replica on a thread of their own. With the same shards the run has the
// same bits on any number of replicas and ranks, saved and loaded in between or not.
//
// Every rank of a run has such an object and calls the same functions; those that say so are collective. Threads: one
// thread at a time. Blocking: update() returns when all replicas are done; a failure of any ends it with that failure.
// A step of an env group that takes longer than stall_timeout is one (DeadlineExceeded), and HungThread when it has not
// come back a minute later.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tandem/concurrency/thread_team.h"
#include "tandem/rl/algo/off_policy/experience_worker.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {

/// Everything that a run is made of. `make_policy` makes modules that `make_agent` can teach.
struct OffPolicySetup : RunSetup {
  OffPolicyOptions off_policy;
  // Leaves that are stacks of frames, as EnvRegistry::frame_stacks() tells them.
  FrameStacks frame_stacks;
  double learning_rate = 3e-4;  // what the schedule is of, and what is reported
  // Adds to the options of the team: groups of parameters, and the optimizer of each.
  std::function<void(learner::TeamOptions&)> set_optimizers;
  // Called once for each replica, one after the other. `member` and `policy`, its module, outlive the agent.
  std::function<std::unique_ptr<OffPolicyAgent>(learner::Member member, ActorCritic& policy)> make_agent;
};

class OffPolicyRun final : public TrainingRun {
 public:
  /// Builds everything and starts the first episodes. Collective. Throws ConfigError for several agents and with what
  /// the factories throw.
  explicit OffPolicyRun(OffPolicySetup setup);

  /// Steps the environments and learns in turns. Collective; the report is the same on all ranks.
  RunReport update() override;
  [[nodiscard]] bool all_reported() const override { return true; }
  /// The actor, and the critics with it: copies of this moment.
  [[nodiscard]] learner::StateParts policies() override;

  [[nodiscard]] std::int64_t updates() const override { return updates_; }
  [[nodiscard]] std::int64_t env_steps() const override { return env_steps_; }
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  void listen_to_episodes(std::function<void(const Episode&)> told) override { episodes_.listen(std::move(told)); }
  [[nodiscard]] int replicas() const override { return replicas_; }
  [[nodiscard]] int shards() const override { return setup_.shards; }
  [[nodiscard]] const learner::Ranks& ranks() const override { return setup_.ranks; }
  [[nodiscard]] std::vector<std::string> take_remarks() override { return setup_.remarks->take(); }
  [[nodiscard]] std::string why_numbers_differ() const override;
  [[nodiscard]] std::string gradients_by() const override { return agents_.front()->gradients_by(); }
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  /// This rank's first replica's, between updates.
  [[nodiscard]] ActorCritic& policy() { return *modules_.front(); }
  /// One for each shard of this rank, in order.
  [[nodiscard]] std::span<const std::unique_ptr<ExperienceWorker>> workers() const { return workers_; }

  /// Hashes the parameters' bytes in order: of the actor, the critics and the temperature.
  [[nodiscard]] std::string params_sha256() override;
  /// Covers the target networks, too.
  [[nodiscard]] std::string state_sha256() override;
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override { return team_->work(); }

  /// Parts that load on any topology: "state" (the model and its optimizer), "target", "normalizers", "run", and for
  /// every shard its streams, its env group and its replay (replay_parts.h).
  [[nodiscard]] learner::StateParts save() override;
  /// Copies all but the full segments of the replay, which are shared.
  [[nodiscard]] std::optional<learner::StateAside> save_aside(const std::set<std::string>& held) override;
  /// The replay goes on where it was, whether the environments do or begin new episodes.
  ExperienceWorker::Resumed load(const learner::ReadPart& read_part) override;

 private:
  // A replica works with its shards' workers, and with memory for rows of each.
  struct Replica {
    std::vector<ExperienceWorker*> workers;
    std::vector<TransitionRows> rows;
    std::vector<learner::Batch> batches;
    std::vector<OffPolicySums> sums;         // by shard, of the update
    std::vector<std::vector<float>> errors;  // by shard; none where rows are drawn evenly
    double sample_seconds = 0, learn_seconds = 0, wait_seconds = 0, grad_norm = 0;
    std::int64_t turns = 0;  // optimizer steps of the update
    // Steps the environments under Sampling::kBeside, else null; last: it uses the workers.
    std::unique_ptr<ThreadTeam> side = {};
  };
  struct RankNumbers;

  void build_workers(const std::vector<sync::Placement>& placements);
  void build_team(const std::vector<sync::Placement>& placements);
  void build_watch();
  [[nodiscard]] Clock::duration patience() const {
    return std::max<Clock::duration>(std::chrono::minutes(5),
                                     2 * std::chrono::seconds(setup_.off_policy.stall_timeout));
  }

  /// The share of the run that is made when `steps` environment steps are.
  [[nodiscard]] double progress_at(std::int64_t steps) const {
    return std::min(1.0, static_cast<double>(steps) / static_cast<double>(setup_.total_steps));
  }

  // On the thread of a replica: an update, a turn of it, and one optimizer step.
  void run_replica(Replica& replica, learner::Member& member);
  // A turn of sampling and learning, in turn or at the same time. `steps`: of all environments when it begins.
  struct TurnBegin {
    std::int64_t steps;
    double progress;
    Chooser chooser;
  };
  void turn_in_turn(Replica& replica, learner::Member& member, const TurnBegin& turn);
  void turn_beside(Replica& replica, learner::Member& member, const TurnBegin& turn);
  void learn(Replica& replica, learner::Member& member, std::int64_t turn, double progress);
  // The numbers of an update that ranks exchange, and what follows from those of all ranks, on the caller's thread.
  void append_numbers();
  RunReport finish_update();
  void report_losses(const OffPolicySums& sums, double grad_norm, std::int64_t turns, LearnReport& report);
  void report_own(const OffPolicySums& sums, const ReplayStats& replay, RunReport& report) const;
  [[nodiscard]] PolicyState policy_state();
  // This rank's share of a checkpoint, without the replay.
  [[nodiscard]] learner::StateParts parts_beside_replay();
  // Works for any shard of the run; collective. `part`: replay-K.
  void load_replay(int shard, const model::NamedTensors& part, const learner::ReadPart& read_part);

  // Workers and teams refer to members above them, so the order of members matters.
  const OffPolicySetup setup_;
  Spec spec_;
  const PolicyMap map_;
  std::vector<Normalizers> normalizers_;  // of the one policy
  EpisodeWindow episodes_;
  // turns_: optimizer steps of the whole run.
  std::int64_t updates_ = 0, env_steps_ = 0, turns_ = 0;
  int replicas_ = 1;
  Range shards_;                                       // of this rank
  std::vector<std::shared_ptr<ActorCritic>> modules_;  // by replica of this rank
  std::unique_ptr<StallWatch> watch_;                  // comes before the team, which looks at it
  std::unique_ptr<learner::ReplicaTeam> team_;
  std::vector<std::unique_ptr<OffPolicyAgent>> agents_;     // by replica of this rank
  std::vector<std::unique_ptr<ExperienceWorker>> workers_;  // by shard of this rank
  std::vector<Replica> at_work_;                            // by replica of this rank

  // Memory of an update: the numbers of this rank and of all, and what they add up to.
  std::vector<double> mine_;
  std::vector<std::vector<double>> all_;
  GroupResults results_;
  std::vector<NormalizerMoments> group_moments_;
};

}  // namespace tandem::rl
