// rl/algo/ppo_run.h: a whole PPO run: replicas, environments, normalisers and counters, one update at a time.
//
//     PpoRun run(setup);
//     while (run.env_steps() < setup.total_steps) print(run.update().episode_return_mean);
//
// Env group k belongs to shard k and holds num_envs / shards environments. Each replica collects the fragments of its
// shards and learns from them on its own thread; nothing but sums crosses between replicas. With the same shards the
// run has the same bits on any number of replicas and ranks, saved and loaded in between or not.
//
// Every rank of a run has such an object and calls the same functions; those that say so are collective. Threads: one
// thread at a time. Blocking: update() returns when all replicas are done; a failure of any ends it with that failure.
// A step of an env group that takes longer than stall_timeout is one (DeadlineExceeded), and HungThread when it has not
// come back a minute later: the run then cannot be destroyed, only the process ended.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tandem/device/cuda_kernels.h"
#include "tandem/learner/replica_team.h"
#include "tandem/learner/state_parts.h"
#include "tandem/rl/algo/ppo/group_rollout.h"
#include "tandem/rl/algo/ppo/ppo.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/algo/ppo/working_groups.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/policy/actor/make_actor.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {

struct PpoSetup {
  std::uint64_t seed = 0;
  std::int64_t total_steps = 100'000;  // environment steps over all environments; what schedules run over
  int shards = 1;
  std::vector<c10::Device> devices{c10::Device(c10::kCPU)};  // of this rank, one replica each
  learner::Ranks ranks;
  PpoOptions ppo;                                       // whose `fragments` follow from the next
  StragglerSetup stragglers;                            // whether env groups may end their rollouts before others
  WhileMissing while_missing = WhileMissing::kAllWork;  // what groups do while `ranks` are fewer than those of the run
  NormalizerOptions normalizer;
  ActorOptions actor;
  model::RngOrder rng = model::RngOrder::kShards;
  device::CudaKernels cuda_kernels = device::CudaKernels::kDeterministic;
  sync::StrategyOptions strategy;  // but for its mean
  sync::GradientCheck gradient_check = sync::GradientCheck::kSum;
  std::function<std::unique_ptr<EnvGroup>(int count)> make_envs;
  PolicyFactory make_policy;

  /// Whether groups may make different numbers of steps, which the reports then say.
  [[nodiscard]] bool has_uneven_rollouts() const {
    return stragglers.may_end_early() || while_missing == WhileMissing::kShareRests;
  }
};

class PpoRun final : public TrainingRun {
 public:
  /// Builds everything and starts the first episodes. Collective. Throws ConfigError with all faults of the options,
  /// and what the factories throw.
  explicit PpoRun(PpoSetup setup);
  ~PpoRun() override;

  /// One rollout and the learning from it. Collective; the report is the same on all ranks.
  RunReport update() override;
  [[nodiscard]] bool all_reported() const override { return true; }

  [[nodiscard]] std::int64_t updates() const override { return updates_; }
  [[nodiscard]] std::int64_t env_steps() const override { return env_steps_; }
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  [[nodiscard]] const PpoSetup& setup() const { return setup_; }
  /// Of all ranks.
  [[nodiscard]] int replicas() const override { return replicas_; }
  [[nodiscard]] int shards() const override { return setup_.shards; }
  [[nodiscard]] const learner::Ranks& ranks() const override { return setup_.ranks; }
  [[nodiscard]] Phase phase() const override;
  [[nodiscard]] std::string why_numbers_differ() const override;
  [[nodiscard]] std::string gradients_by() const override { return ppo_.front()->gradients_by(); }
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] const Normalizers& normalizers() const { return normalizers_; }
  /// This rank's first replica's, between updates.
  [[nodiscard]] ActorCritic& policy() { return *policies_.front(); }

  /// SHA-256 of the parameters' bytes in order.
  [[nodiscard]] std::string params_sha256() override;
  /// SHA-256 of parameters, buffers, optimizer state and normalisers. Collective; the same on all ranks.
  [[nodiscard]] std::string state_sha256() override;

  /// Work of every replica of the run so far. Collective.
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override { return team_->work(); }

  /// All that a checkpoint needs, in parts that load on any topology: "state" (the model and its optimizer),
  /// "normalizers", "run", and one part for every shard and every env group. Collective; all ranks get all parts.
  [[nodiscard]] learner::StateParts save() override;
  /// Goes on from there. Collective; `read_part` of rank 0 is asked. Throws CheckpointError naming what is missing or
  /// of another shape; the run is then of no further use.
  RolloutWorker::Resumed load(const learner::ReadPart& read_part) override;

 private:
  void build_rollouts(const std::vector<sync::Placement>& placements);
  [[nodiscard]] std::vector<std::optional<int>> find_working(const std::vector<sync::Placement>& placements) const;
  void build_worker(int shard, ActorCritic& policy);
  [[nodiscard]] RolloutWorker& worker(int shard) { return *workers_[static_cast<std::size_t>(shard - shards_.begin)]; }
  void collect_and_learn(learner::Member& member, RunReport& report);
  RunReport finish_update(const std::vector<RunReport>& replicas);
  void account_rollouts(RunReport& report);
  [[nodiscard]] model::NamedTensors run_part() const;
  void load_run_part(const model::NamedTensors& run);

  const PpoSetup setup_;
  Spec spec_;
  Normalizers normalizers_;
  EpisodeWindow episodes_;
  std::int64_t updates_ = 0, env_steps_ = 0;
  int replicas_ = 1;
  Range shards_;                                             // of this rank
  int resting_ = 0;                                          // env groups of the run that make no steps
  std::vector<std::shared_ptr<ActorCritic>> policies_;       // by replica of this rank
  std::vector<std::unique_ptr<RolloutWorker>> workers_;      // by shard of this rank
  std::vector<std::unique_ptr<CompleteEpisodes>> complete_;  // likewise, around them; none where episodes are cut
  std::vector<std::unique_ptr<GroupRollout>> rollouts_;      // by replica of this rank
  std::vector<std::vector<Fragment*>> fragments_;            // by replica of this rank, of its shards
  std::unique_ptr<StepWatch> watch_;
  std::unique_ptr<learner::ReplicaTeam> team_;
  std::vector<std::unique_ptr<Ppo>> ppo_;  // by replica of this rank

  // Memory of an update's end.
  std::vector<RunReport> replica_reports_;
  std::vector<double> results_;                   // of this rank
  std::vector<std::vector<double>> all_results_;  // by rank
  std::vector<GroupWindow> groups_;
  std::vector<Episode> new_episodes_;
  NormalizerMoments group_moments_;
};

}  // namespace tandem::rl
