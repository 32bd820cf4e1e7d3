// rl/algo/sharded_trajectory.h: a batch beside the learner: a trajectory cut into shards of whole environments, each on
// the device of the replica that learns from it.
//
// Shard s of S has environments s * N / S to (s + 1) * N / S of the N, all steps of each, and the state that a policy
// which remembers had before the first.
//
// Threads: single-thread; a loader fills it, then it is the learner's. Owns its memory, which is made once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/rl/algo/trajectory.h"

namespace tandem::rl {

class ShardedTrajectory {
 public:
  /// For trajectories of `rows` environments, a multiple of the shards. `devices`: by shard. `state_size`: as
  /// Trajectory.
  ShardedTrajectory(const Spec& spec, int steps, int rows, std::int64_t state_size,
                    std::span<const c10::Device> devices);

  void copy_from(const Trajectory& whole);

  /// One batch for each of `shards`.
  [[nodiscard]] std::span<const learner::Batch> batches(Range shards) const;
  /// Of all shards: steps times environments.
  [[nodiscard]] std::int64_t rows() const;

  std::vector<Episode> episodes;  // that ended in the whole
  NormalizerMoments moments;      // of the whole, as Trajectory

 private:
  std::vector<Trajectory> shards_;
  std::vector<learner::Batch> batches_;  // views of them
};

}  // namespace tandem::rl
