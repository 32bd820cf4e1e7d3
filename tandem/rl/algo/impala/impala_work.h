// rl/algo/impala_work.h: what is sampled and learned in a run of IMPALA or APPO, by the stages of its pipeline. When
// each of them does its part, on which thread and of which batch, is ImpalaRun's.
//
// A batch is collected into a slot of the queue, loaded from there into a buffer beside the learner, learned from, and
// told of to the owner: slots, buffers and tellings have numbers, and whoever has a number's lease is alone with it.
//
// Threads: collect() on each rollout worker's, load_batch() on each loader's, those of the learner on its own; inline
// all on the owner's. spec(), replicas() and shards() on any. Of the owner's, episodes(), account() and add_to() at any
// time, and the rest, to which publish() belongs as well, while all others rest. Blocking: the learner's functions wait
// for other replicas and ranks, and are collective; so are the hashes, save() and load().
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/learner/replica_team.h"
#include "tandem/learner/state_parts.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {

/// How many of each there are.
struct ImpalaMemory {
  std::size_t slots = 1, buffers = 1, tellings = 1;
};

class ImpalaWork {
 public:
  virtual ~ImpalaWork() = default;

  [[nodiscard]] virtual const Spec& spec() const = 0;
  [[nodiscard]] virtual const EpisodeWindow& episodes() const = 0;
  /// Of all ranks.
  [[nodiscard]] virtual int replicas() const = 0;
  /// Of this rank.
  [[nodiscard]] virtual Range shards() const = 0;
  [[nodiscard]] virtual std::string gradients_by() const = 0;

  // Of rollout workers and loaders.

  /// A batch of `worker`, with the newest weights, whose version is returned. Throws EnvError.
  virtual std::int64_t collect(int worker, std::size_t slot) = 0;
  virtual void load_batch(std::size_t slot, std::size_t buffer) = 0;

  // Of the learner.

  struct Step {
    double grad_norm = 0;     // of one policy; several are told of each by itself
    double wait_seconds = 0;  // for other replicas
  };
  /// Of every policy that is learned.
  virtual Step step(std::size_t buffer, double lr_factor) = 0;
  /// APPO's targets take the policies' weights.
  virtual void renew_targets() = 0;
  /// Tells all ranks of the step, or of a batch that was dropped, and of what the batch has that is new. Returns the
  /// new environment steps of all ranks.
  struct News {
    std::int64_t new_samples = 0;  // of this rank's batch; 0: it is gone over again
    bool dropped = false;
  };
  virtual std::int64_t exchange(std::size_t buffer, const News& mine, std::size_t telling) = 0;
  /// The weights, and what belongs to them, are what workers act with from now on.
  virtual void publish(std::int64_t version) = 0;

  // Of the owner.

  /// Before the workers begin, whatever they had last: the next fragments take what is newest.
  virtual void forget() = 0;
  /// Counts what was told of one batch.
  virtual void account(std::size_t telling, bool dropped) = 0;
  /// Writes losses, episodes and policies of what was counted since the last call.
  virtual void add_to(RunReport& report) = 0;

  [[nodiscard]] virtual std::string params_sha256() = 0;
  [[nodiscard]] virtual std::string state_sha256() = 0;
  /// Of each replica of the run; of several policies the sum.
  [[nodiscard]] virtual std::vector<learner::ReplicaTeam::Work> work() const = 0;

  /// Passes over batches, as the learner counts them.
  [[nodiscard]] virtual std::uint64_t passes() const = 0;
  /// Appends this rank's share of all ranks' parts.
  virtual void save(learner::StateParts& parts) = 0;
  /// All but "run", which is ImpalaRun's.
  [[nodiscard]] virtual std::vector<std::string> part_names() const = 0;
  /// What "run" says, and the seed of episodes that cannot go on.
  struct Before {
    const model::NamedTensors& run;
    std::uint64_t passes = 0;
    std::int64_t episodes = 0;
    std::uint64_t seed_of_new_episodes = 0;
  };
  virtual RolloutWorker::Resumed load(const learner::StateParts& parts, const Before& before) = 0;
  /// Throws OutdatedCheckpoint for the env group of a checkpoint that an earlier build divided in another way.
  virtual void check_first_group(const model::NamedTensors& first_group) const = 0;
};

}  // namespace tandem::rl
