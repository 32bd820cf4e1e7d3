#include "tandem/rl/algo/sharded_trajectory.h"

#include "tandem/base/check.h"

namespace tandem::rl {

ShardedTrajectory::ShardedTrajectory(const Spec& spec, int steps, int rows, std::int64_t state_size,
                                     std::span<const c10::Device> devices)
    : moments(spec, {}) {
  const auto shards = static_cast<int>(devices.size());
  TANDEM_CHECK(shards > 0 && rows % shards == 0, rows, " environments for ", shards, " shards");
  for (const c10::Device device : devices) {
    shards_.emplace_back(spec, steps, rows / shards, state_size, device);
    batches_.push_back(shards_.back().batch());
  }
}

void ShardedTrajectory::copy_from(const Trajectory& whole) {
  int first_row = 0;
  for (Trajectory& shard : shards_) {
    shard.copy_from(whole, first_row);
    first_row += shard.rows;
  }
  episodes = whole.episodes;
  moments = whole.moments;
}

std::span<const learner::Batch> ShardedTrajectory::batches(Range shards) const {
  return std::span(batches_).subspan(static_cast<std::size_t>(shards.begin), static_cast<std::size_t>(shards.size()));
}

std::int64_t ShardedTrajectory::rows() const {
  const Trajectory& one = shards_.front();
  return std::int64_t{one.steps} * one.rows * static_cast<std::int64_t>(shards_.size());
}

}  // namespace tandem::rl
