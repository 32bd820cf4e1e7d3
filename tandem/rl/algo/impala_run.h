// rl/algo/impala_run.h: a whole IMPALA or APPO run: rollout workers that sample while the learner learns.
//
//     ImpalaRun run(setup);
//     while (run.env_steps() < setup.total_steps) print(run.update().episode_return_mean);
//
// Each rollout worker has an env group and a copy of the policy. It takes the newest weights, collects a fragment and
// queues it; loaders copy it beside the learner; the learner makes a step with V-trace and publishes its weights. APPO
// is the same with another loss (appo_loss.h) and a target network, which the learner alone has. They
// go on between the calls of update() as well. Which batch is learned from when depends on who is faster, so no two
// runs have the same numbers, except with ImpalaExecution::kInline.
//
// save() and the hashes let the workers finish the fragments that they are at and learn from all that is on its way, so
// nothing that was sampled is lost; the next update() starts the workers again. Together the workers sample
// total_steps, rounded up to whole batches.
//
// Threads: as TrainingRun. Blocking: update() waits until the learner has made batches_per_update steps, or there is
// nothing more to learn from; a failure of any thread ends it with that failure and the thread's name. A rollout
// worker, a loader or the learner that hangs for longer than stall_timeout is such a failure (DeadlineExceeded), and
// HungThread when its thread does not come back either: the run then cannot be destroyed, only the process ended.
// One replica and one rank so far, observations and rewards as the environment gives them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/concurrency/slot_pool.h"
#include "tandem/pipeline/learner_pipeline.h"
#include "tandem/rl/algo/appo_options.h"
#include "tandem/rl/algo/fused_vtrace.h"
#include "tandem/rl/algo/impala_loss.h"
#include "tandem/rl/algo/impala_options.h"
#include "tandem/rl/algo/sampler.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/algo/trajectory.h"
#include "tandem/rl/policy/make_actor.h"

namespace tandem::rl {

struct ImpalaSetup {
  std::uint64_t seed = 0;
  std::int64_t total_steps = 100'000;  // environment steps over all environments; what schedules run over
  c10::Device device{c10::kCPU};       // of the learner
  learner::Ranks ranks;
  ImpalaOptions impala;
  std::optional<AppoOptions> appo;  // none: IMPALA
  ActorOptions actor;
  model::RngOrder rng = model::RngOrder::kShards;
  sync::StrategyOptions strategy;  // but for its mean
  sync::GradientCheck gradient_check = sync::GradientCheck::kSum;
  std::function<std::unique_ptr<EnvGroup>(int count)> make_envs;
  PolicyFactory make_policy;
};

class ImpalaRun final : public TrainingRun {
 public:
  /// Builds everything and starts the first episodes; the workers start with the first update(). Throws ConfigError
  /// with all faults of the options, and what the factories throw.
  explicit ImpalaRun(ImpalaSetup setup);
  /// Stops and joins all threads; what is on its way is dropped.
  ~ImpalaRun() override;

  RunReport update() override;
  [[nodiscard]] bool all_reported() const override { return unreported_ == 0; }

  [[nodiscard]] std::int64_t updates() const override { return updates_; }
  /// Of the batches that came to the learner, those included that were too old to be learned from.
  [[nodiscard]] std::int64_t env_steps() const override { return env_steps_; }
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int replicas() const override { return 1; }
  [[nodiscard]] int shards() const override { return 1; }
  [[nodiscard]] const learner::Ranks& ranks() const override { return setup_.ranks; }
  [[nodiscard]] std::string why_numbers_differ() const override;
  [[nodiscard]] std::string gradients_by() const override;

  [[nodiscard]] std::string params_sha256() override;
  [[nodiscard]] std::string state_sha256() override;
  /// After save() or a hash, before the next update().
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override;

  /// "state", "normalizers", "run", "shard-0", of APPO "target", and one part for every worker's env group.
  [[nodiscard]] learner::StateParts save() override;
  RolloutWorker::Resumed load(const learner::ReadPart& read_part) override;

 private:
  // A batch in the queue: the slot of trajectories_ that holds it.
  struct Queued {
    SlotPool::Lease slot;
  };
  struct Learned {
    ImpalaNumbers numbers;
    double grad_norm = 0, learning_rate = 0, learn_seconds = 0, sync_seconds = 0;
    std::int64_t new_samples = 0;
    bool dropped = false;                     // too old to be learned from
    std::optional<SlotPool::Lease> episodes;  // of told_: where those of a new batch are
  };
  using Pipeline = pipeline::LearnerPipeline<Queued, Trajectory*, Learned>;

  [[nodiscard]] std::shared_ptr<ActorCritic> build_policy() const;
  [[nodiscard]] std::string why_no_kernels() const;  // in a clause; empty when there are
  void build_kernels();
  void build_sampler(int worker);
  void start();
  void quiesce();
  [[nodiscard]] std::optional<pipeline::Tagged<Queued>> produce(int worker);
  void load_batch(Queued& queued, Trajectory& into);
  learner::LearnerReport step(learner::Learner& learner, double lr_factor, ImpalaNumbers& numbers);
  [[nodiscard]] Learned learn(Trajectory& batch, const pipeline::LearnStep& step);
  [[nodiscard]] Learned drop(Trajectory& batch, const pipeline::LearnStep& step);
  void take_new(Trajectory& batch, const pipeline::LearnStep& step, Learned& learned);
  void publish();
  void renew_target();
  void account(Learned learned);
  RunReport finish_update();

  const ImpalaSetup setup_;
  Spec spec_;
  const Normalizers normalizers_;
  EpisodeWindow episodes_;
  std::int64_t updates_ = 0, env_steps_ = 0;
  LearnReport sums_;    // of the update that is under way
  int unreported_ = 0;  // batches, dropped ones too

  std::shared_ptr<ActorCritic> policy_;               // the learner's
  std::shared_ptr<ActorCritic> target_;               // of APPO, or null
  Weights policy_weights_, target_weights_;           // theirs, alive
  std::unique_ptr<FusedImpala<float>> fused_impala_;  // of the algorithm, or null
  std::unique_ptr<FusedAppo<float>> fused_appo_;
  std::unique_ptr<learner::ReplicaTeam> team_;
  std::vector<std::unique_ptr<Sampler>> samplers_;
  std::vector<Trajectory> trajectories_, buffers_;  // in the queue; beside the learner
  SlotPool slots_;                                  // of trajectories_
  std::vector<std::vector<Episode>> told_;          // on their way to the owner
  SlotPool told_slots_;
  std::unique_ptr<pipeline::Published<Weights>> weights_;
  pipeline::PipelineStats stats_;
  std::int64_t trained_before_ = 0, sampled_before_ = 0, dropped_before_ = 0;  // by the processes before this one
  std::int64_t dropped_ = 0;                                                   // samples that were too old, in all

  std::atomic<std::int64_t> claimed_{0};          // environment steps that workers have undertaken to make
  std::int64_t steps_ = 0, learned_samples_ = 0;  // the learner thread's, while it runs
  std::unique_ptr<Pipeline> pipeline_;            // last: its threads use all of the above
};

}  // namespace tandem::rl
