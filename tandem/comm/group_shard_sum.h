// comm/group_shard_sum.h: sums statistics over the shards of all members of a group; see base/shard_sum.h.
//
// Each member adds the numbers of its own shards along the tree, and one all-reduce adds the members' sums. The result
// has the same bits on any number of members.
//
// Threads: the member's thread. Blocking: sum() waits for all members, as Group::start_all_reduce(). Errors: those of
// the group; InvariantError when two shards give unequally many numbers.
#pragma once
#include "tandem/base/shard_sum.h"
#include "tandem/comm/group.h"

namespace tandem::comm {

class GroupShardSum final : public ShardSum {
 public:
  /// `group` is not owned. Every sum() waits at most `patience`, or until `stop`.
  GroupShardSum(Group& group, Clock::duration patience, std::stop_token stop)
      : group_(group), patience_(patience), stop_(std::move(stop)) {}

  [[nodiscard]] const std::vector<double>& sum(std::span<const std::vector<double>> shards) override;

 private:
  Group& group_;
  const Clock::duration patience_;
  const std::stop_token stop_;
  std::vector<std::vector<double>> partial_;  // one entry a shard, kept for its memory; the sum ends in the first
};

}  // namespace tandem::comm
