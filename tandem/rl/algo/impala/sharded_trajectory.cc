#include "tandem/rl/algo/impala/sharded_trajectory.h"

#include "tandem/base/check.h"

namespace tandem::rl {

ShardedTrajectory::ShardedTrajectory(const Spec& spec, int steps, int rows, std::int64_t state_size,
                                     std::span<const c10::Device> devices) {
  TANDEM_CHECK(!devices.empty(), "a batch without shards");
  for (const c10::Device device : devices) {
    shards_.emplace_back(spec, steps, rows, state_size, device);
    batches_.push_back(shards_.back().batch());
  }
}

void ShardedTrajectory::copy_from(const QueuedBatch& queued) {
  const std::size_t splits = queued.parts.size() / shards_.size();
  TANDEM_CHECK(splits * shards_.size() == queued.parts.size(), queued.parts.size(), " fragments for ", shards_.size(),
               " shards");
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    shards_[shard].copy_from(std::span(queued.parts).subspan(shard * splits, splits));
  results = queued.results;
}

}  // namespace tandem::rl
