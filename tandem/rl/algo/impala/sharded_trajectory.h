// rl/algo/sharded_trajectory.h: a batch beside the learner, as a rank has it: a trajectory of each of its shards, on
// the device of the replica that learns from the shard.
//
// Shard s of the run's S has environments s * N / S to (s + 1) * N / S of the N that one rollout worker of all ranks
// together steps, in env groups of their own, all steps of each, and the state that a policy which remembers had before
// the first.
//
// Threads: single-thread; a loader fills it, then it is the learner's. Owns its memory, which is made once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/algo/impala/queued_batch.h"
#include "tandem/rl/algo/impala/trajectory.h"

namespace tandem::rl {

class ShardedTrajectory {
 public:
  /// `rows`: environments of a shard. `devices`: by shard of this rank. `state_size`: as Trajectory.
  ShardedTrajectory(const Spec& spec, int steps, int rows, std::int64_t state_size,
                    std::span<const c10::Device> devices);

  /// Each shard has as many of its parts as the others, in their order.
  void copy_from(const QueuedBatch& queued);

  /// By shard.
  [[nodiscard]] std::span<const learner::Batch> batches() const { return batches_; }

  std::vector<double> results;  // as those of the queued batch

 private:
  std::vector<Trajectory> shards_;
  std::vector<learner::Batch> batches_;  // views of them
};

}  // namespace tandem::rl
