// base/shard_sum.h: sums of statistics over the whole batch, with the same bits on any number of replicas and ranks.
#pragma once
#include <span>
#include <vector>

namespace tandem {

/// Sums vectors over all shards of the run. Each replica has an object of its own and uses it on its own thread.
class ShardSum {
 public:
  virtual ~ShardSum() = default;
  /// Takes one vector for each shard of this replica, in the order of the shards. All vectors of all replicas have the
  /// same length. Returns the sum over all shards of the run, in float64 along the tree of base/summation_tree.h; the
  /// reference is valid until the next call. Collective: every replica calls it, and the call waits for the others.
  /// Throws GroupAborted when another replica failed.
  [[nodiscard]] virtual const std::vector<double>& sum(std::span<const std::vector<double>> shards) = 0;
};

}  // namespace tandem
