// rl/algo/impala/impala_run.h: a whole IMPALA or APPO run: rollout workers that sample while the learner learns.
//
//     ImpalaRun run(setup);
//     while (run.env_steps() < setup.total_steps) print(run.update().episode_return_mean);
//
// Each rollout worker has a copy of the policy and env groups for every shard. It takes the newest weights and collects
// their fragments in a slot of the queue; loaders copy them beside the learner's replicas; these make a step with
// V-trace together, and the learner publishes its weights (impala_learner.h). APPO is the same with another loss
// (impala_loss.h) and a target network, which the learner alone has. They go on between the calls of update() as well.
// Which batch is learned from when depends on who is faster, so no two runs have the same numbers, except with
// ImpalaExecution::kInline: then, with the same shards and splits, any number of replicas and ranks gives the same
// bits.
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
// What is sampled and learned, with one agent or several, is in impala_seats.h.
//
// Threads: as TrainingRun; all functions that wait are collective. Blocking: update() waits until the learner has made
// batches_per_update steps, or there is nothing more to learn from; a failure of any thread ends it with that failure
// and the thread's name. A rollout worker, a loader or the learner that hangs for longer than stall_timeout is such a
// failure (DeadlineExceeded), and HungThread when its thread does not come back either: the run then cannot be
// destroyed, only the process ended. A failure of one rank ends the others' updates with its reason.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/concurrency/slot_pool.h"
#include "tandem/pipeline/admission.h"
#include "tandem/pipeline/learner_pipeline.h"
#include "tandem/rl/algo/impala/impala_seats.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {

class ImpalaRun final : public TrainingRun {
 public:
  /// Builds everything and starts the first episodes; the workers start with the first update(). Throws ConfigError
  /// with all faults of the options, and what the factories throw.
  /// Collective when there are several ranks. The destructor stops and joins all threads, and drops the batches that
  /// are on their way.
  explicit ImpalaRun(ImpalaSetup setup);

  /// Reports what came since the last call, batches that save() learned from in between included.
  RunReport update() override;
  [[nodiscard]] bool all_reported() const override { return unreported_ == 0; }
  [[nodiscard]] RunReport report_rest() override;
  [[nodiscard]] learner::StateParts policies() override { return seats_->policies(); }

  [[nodiscard]] std::int64_t updates() const override { return updates_; }
  /// Environment steps of all batches that came to the learners, batches included that were too old to be learned from.
  [[nodiscard]] std::int64_t env_steps() const override { return env_steps_; }
  [[nodiscard]] const EpisodeWindow& episodes() const override { return seats_->episodes(); }
  void listen_to_episodes(std::function<void(const Episode&)> told) override {
    seats_->listen_to_episodes(std::move(told));
  }
  [[nodiscard]] const Spec& spec() const override { return seats_->spec(); }
  [[nodiscard]] int replicas() const override { return seats_->replicas(); }
  [[nodiscard]] int shards() const override { return setup_.shards; }
  [[nodiscard]] const learner::Ranks& ranks() const override { return setup_.ranks; }
  [[nodiscard]] std::vector<std::string> take_remarks() override { return setup_.remarks->take(); }
  [[nodiscard]] std::string why_numbers_differ() const override;
  [[nodiscard]] std::string gradients_by() const override { return seats_->gradients_by(); }

  [[nodiscard]] std::string params_sha256() override;
  [[nodiscard]] std::string state_sha256() override;
  /// Call it after save() or a hash, and before the next update(): the learner rests then.
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

  /// The parts are "run", and those of ImpalaSeats.
  [[nodiscard]] learner::StateParts save() override;
  RolloutWorker::Resumed load(const learner::ReadPart& read_part) override;

 private:
  using Queued = SlotPool::Lease;  // a batch in the queue: the slot that holds it
  // A result of the learner thread on its way to the owner. Seconds are of this rank.
  struct Learned {
    double learning_rate = 0, learn_seconds = 0, sync_seconds = 0;
    // Environment steps of new batches, summed over all ranks.
    std::int64_t new_samples = 0;
    // This rank's part of new_samples.
    std::int64_t own_samples = 0;
    // Set for a batch that was too old to be learned from.
    bool dropped = false;
    // The lease of the memory that has what was learned, and the results of new batches.
    std::optional<SlotPool::Lease> telling;
  };
  // Buffers are known by number: the memory itself belongs to ImpalaSeats.
  using Pipeline = pipeline::LearnerPipeline<Queued, std::size_t, Learned>;

  template <typename Work>
  [[nodiscard]] auto guarded(Work work);
  [[nodiscard]] int next_worker() const;
  [[nodiscard]] int first_passes() const;
  [[nodiscard]] std::int64_t batches_made() const;
  [[nodiscard]] std::int64_t own_batch_rows() const;
  // start() and quiesce() begin and end the pipeline; between them its threads own everything marked as theirs.
  void start();
  void quiesce();
  void finish_together();
  void take_the_rest();
  // Gathers a struct of every rank, which append_struct() takes.
  template <typename Value>
  [[nodiscard]] std::vector<Value> gather_while_sampling(const Value& mine);
  // The pipeline's work: produce() on a worker's thread, load_batch() on a loader's, learn() and drop() on the
  // learner's.
  [[nodiscard]] std::optional<pipeline::Tagged<Queued>> produce(int worker);
  void load_batch(Queued& queued, std::size_t buffer);
  [[nodiscard]] Learned learn(std::size_t buffer, const pipeline::LearnStep& step);
  [[nodiscard]] Learned drop(std::size_t buffer, const pipeline::LearnStep& step);
  void exchange(std::size_t buffer, const pipeline::LearnStep& step, Learned& learned);
  [[nodiscard]] std::optional<Learned> next();
  void account(Learned learned);
  void combine_ranks(RunReport& report);

  // The seats refer to it, so it comes before them.
  const ImpalaSetup setup_;
  std::int64_t updates_ = 0, env_steps_ = 0;
  LearnReport sums_;            // of the update that is under way: times and sizes of steps
  std::int64_t own_steps_ = 0;  // of this rank's environments, likewise
  int unreported_ = 0;          // batches, dropped ones too

  // Leases of these pools travel through the pipeline. The pools outlive it.
  SlotPool slots_;     // of the queue, and those that are written and loaded from
  SlotPool tellings_;  // on their way to the owner
  std::unique_ptr<ImpalaSeats> seats_;
  pipeline::PipelineStats stats_;
  // Read from a checkpoint; zero in a run that began here.
  std::int64_t trained_before_ = 0, sampled_before_ = 0, dropped_before_ = 0;  // by the processes before this one
  std::int64_t dropped_ = 0;                                                   // samples that were too old, in all

  // Set when a thread of this rank failed by itself, not because another one did.
  std::atomic<bool> has_failed_{false};
  // Counts environment steps of all ranks.
  std::optional<pipeline::BatchClaims> claims_;
  // Present when there are several ranks.
  std::optional<pipeline::StepPermits> permits_;
  // The learner thread's, while it runs; the last: environment steps of this rank, each pass counted.
  std::int64_t steps_ = 0, learned_samples_ = 0, trained_ = 0;
  std::unique_ptr<Pipeline> pipeline_;  // last: its threads use all of the above
};

}  // namespace tandem::rl
