// base/shard_sum.h: statistics over the whole batch, with the same bits on any topology.
#pragma once
#include <span>
#include <vector>

namespace tandem {

/// Sums vectors over all shards of the run. A replica sees one such object, on its own thread.
class ShardSum {
 public:
  virtual ~ShardSum() = default;
  /// One vector a shard of this replica, in order, all of one length on all replicas. Returns the sum over all shards
  /// of the run, in float64 along the recursive-halving tree over the shards, valid until the next call. Collective:
  /// every replica calls it; waits for them. Throws GroupAborted when another replica failed.
  [[nodiscard]] virtual const std::vector<double>& sum(std::span<const std::vector<double>> shards) = 0;
};

}  // namespace tandem
