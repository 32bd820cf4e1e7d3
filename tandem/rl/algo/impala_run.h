// rl/algo/impala_run.h: a whole IMPALA or APPO run: rollout workers that sample while the learner learns.
//
//     ImpalaRun run(setup);
//     while (run.env_steps() < setup.total_steps) print(run.update().episode_return_mean);
//
// Each rollout worker has a copy of the policy and, for every shard, env groups that take turns, one for each of its
// splits (alternating_rollout.h). It takes the newest weights and collects their fragments in a slot of the queue;
// loaders copy them beside the learner's replicas; these make a step with V-trace together, and the learner publishes
// its weights (impala_learner.h). APPO is the same with another loss (appo_loss.h) and a target network, which the
// learner alone has. They go on between the calls of update() as well. Which batch is learned from when depends on who
// is faster, so no two runs have the same numbers, except with ImpalaExecution::kInline: then, with the same shards and
// splits, any number of replicas and ranks gives the same bits.
//
// Every rank of a run has such an object, with workers, queue, loaders and learner for its own shards: worker w of all
// ranks together steps num_envs / workers environments. The learners make each step together, each from the batch that
// comes next on its rank, so a rank that waits for samples holds the others. They rest after batches_per_update steps
// until the next update(), while workers and loaders go on. All ranks make equally many batches, and so equally many
// steps: workers of all claim the same environment steps, and save() lets those that are behind catch up.
//
// save() and the hashes let the workers finish the fragments that they are at and learn from all that is on its way, so
// nothing that was sampled is lost; the next update() starts the workers again. Together the workers sample
// total_steps, rounded up to whole batches.
//
// Observations and rewards may be normalised: a batch brings the moments of what its worker saw, which count, once the
// learner comes to it, for the fragments that begin after that; they are published with the weights.
//
// Threads: as TrainingRun; all functions that wait are collective. Blocking: update() waits until the learner has made
// batches_per_update steps, or there is nothing more to learn from; a failure of any thread ends it with that failure
// and the thread's name. A rollout worker, a loader or the learner that hangs for longer than stall_timeout is such a
// failure (DeadlineExceeded), and HungThread when its thread does not come back either: the run then cannot be
// destroyed, only the process ended. A failure of one rank ends the others' updates with its reason.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/concurrency/slot_pool.h"
#include "tandem/pipeline/batch_claims.h"
#include "tandem/pipeline/learner_pipeline.h"
#include "tandem/rl/algo/impala_learner.h"
#include "tandem/rl/algo/impala_setup.h"
#include "tandem/rl/algo/sampler.h"
#include "tandem/rl/algo/sharded_trajectory.h"
#include "tandem/rl/algo/step_news.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {

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
  /// Of the batches that came to the learners, those included that were too old to be learned from.
  [[nodiscard]] std::int64_t env_steps() const override { return env_steps_; }
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  /// Of all ranks.
  [[nodiscard]] int replicas() const override { return learner_->replicas(); }
  [[nodiscard]] int shards() const override { return setup_.shards; }
  [[nodiscard]] const learner::Ranks& ranks() const override { return setup_.ranks; }
  [[nodiscard]] std::string why_numbers_differ() const override;
  [[nodiscard]] std::string gradients_by() const override { return learner_->gradients_by(); }

  [[nodiscard]] std::string params_sha256() override;
  [[nodiscard]] std::string state_sha256() override;
  /// After save() or a hash, before the next update().
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override;

  /// Where batches are, for tests, and for reports of what a stuck run waits for. Once all threads have ended or
  /// failed, the last three make up the first; before that a stage may have some as well.
  struct Places {
    std::size_t all = 0, idle = 0;
    std::size_t waiting = 0;  // in the queue; loaded
    std::size_t held = 0;     // by workers that could not queue them; by the learner, with passes left
  };
  [[nodiscard]] Places queue_slots() const;
  [[nodiscard]] Places buffers() const;

  /// "normalizers", "run", those of ImpalaLearner::save(), and one part for every env group.
  [[nodiscard]] learner::StateParts save() override;
  RolloutWorker::Resumed load(const learner::ReadPart& read_part) override;

 private:
  // A batch in the queue: the slot of queued_ that holds it.
  struct Queued {
    SlotPool::Lease slot;
  };
  struct Learned {
    ImpalaNumbers numbers;
    double grad_norm = 0, learning_rate = 0, learn_seconds = 0, sync_seconds = 0;
    std::int64_t new_samples = 0;             // of all ranks
    std::int64_t own_samples = 0;             // of these, this rank's
    bool dropped = false;                     // too old to be learned from
    std::optional<SlotPool::Lease> episodes;  // of told_: where those of new batches are
  };
  using Pipeline = pipeline::LearnerPipeline<Queued, ShardedTrajectory*, Learned>;

  [[nodiscard]] std::shared_ptr<ActorCritic> build_policy() const;
  void build_sampler(int worker);
  // Env groups of the run are counted by worker, shard and split; those of a worker on this rank follow each other.
  [[nodiscard]] Range group_numbers(int worker) const {
    const Range shards = learner_->shards();
    const int first = worker * setup_.shards, splits = setup_.impala.splits;
    return {(first + shards.begin) * splits, (first + shards.end) * splits};
  }
  template <typename Work>
  [[nodiscard]] auto guarded(Work work);
  [[nodiscard]] int next_worker() const;
  [[nodiscard]] int first_passes() const;
  [[nodiscard]] std::int64_t batches_made() const;
  void start();
  void quiesce();
  void finish_together();
  void take_the_rest();
  [[nodiscard]] std::vector<std::vector<double>> gather_while_sampling(const std::vector<double>& mine);
  [[nodiscard]] std::size_t expected_results() const;
  [[nodiscard]] std::optional<pipeline::Tagged<Queued>> produce(int worker);
  void load_batch(Queued& queued, ShardedTrajectory& into);
  [[nodiscard]] Learned learn(ShardedTrajectory& batch, const pipeline::LearnStep& step);
  [[nodiscard]] Learned drop(ShardedTrajectory& batch, const pipeline::LearnStep& step);
  void exchange(const ShardedTrajectory& batch, const pipeline::LearnStep& step, std::span<const ImpalaNumbers> shards,
                Learned& learned);
  void publish();
  [[nodiscard]] std::optional<Learned> next();
  void account(Learned learned);
  RunReport finish_update();
  void combine_ranks(RunReport& report);
  [[nodiscard]] std::vector<std::string> part_names() const;
  void refuse_undivided(const model::NamedTensors& first_group) const;

  const ImpalaSetup setup_;
  Spec spec_;
  Normalizers normalizers_;  // the learner thread's, while it runs
  EpisodeWindow episodes_;
  std::int64_t updates_ = 0, env_steps_ = 0;
  LearnReport sums_;            // of the update that is under way
  std::int64_t own_steps_ = 0;  // of this rank's environments, likewise
  int unreported_ = 0;          // batches, dropped ones too

  std::unique_ptr<ImpalaLearner> learner_;
  std::vector<std::unique_ptr<Sampler>> samplers_;  // by worker
  std::vector<QueuedBatch> queued_;                 // slots of the queue, and those that are written and loaded from
  std::vector<ShardedTrajectory> buffers_;          // beside the learner
  SlotPool slots_;                                  // of queued_
  std::vector<std::vector<Episode>> told_;          // on their way to the owner
  SlotPool told_slots_;
  std::unique_ptr<pipeline::Published<Behaviour>> behaviour_;
  pipeline::PipelineStats stats_;
  std::int64_t trained_before_ = 0, sampled_before_ = 0, dropped_before_ = 0;  // by the processes before this one
  std::int64_t dropped_ = 0;                                                   // samples that were too old, in all

  std::atomic<bool> has_failed_{false};           // a thread of this rank, by itself
  std::optional<pipeline::BatchClaims> claims_;   // in environment steps of all ranks
  std::optional<pipeline::StepPermits> permits_;  // of several ranks
  std::int64_t steps_ = 0, learned_samples_ = 0;  // the learner thread's, while it runs
  std::unique_ptr<StepNews> news_;                // likewise
  std::unique_ptr<Pipeline> pipeline_;            // last: its threads use all of the above
};

}  // namespace tandem::rl
