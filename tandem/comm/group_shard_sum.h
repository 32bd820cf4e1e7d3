// comm/group_shard_sum.h: ShardSum over the members of a group.
#pragma once
#include "tandem/base/shard_sum.h"
#include "tandem/comm/group.h"

namespace tandem::comm {

class GroupShardSum final : public ShardSum {
 public:
  /// `group` is not owned. Every call waits within `patience`, or until `stop`.
  GroupShardSum(Group& group, Clock::duration patience, std::stop_token stop)
      : group_(group), patience_(patience), stop_(std::move(stop)) {}

  [[nodiscard]] const std::vector<double>& sum(std::span<const std::vector<double>> shards) override;

 private:
  Group& group_;
  const Clock::duration patience_;
  const std::stop_token stop_;
  std::vector<std::vector<double>> partial_;  // a shard each; the sum ends in the first
};

}  // namespace tandem::comm
