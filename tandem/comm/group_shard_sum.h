// comm/group_shard_sum.h: sums of statistics over the whole batch, with the same bits on any number of replicas and
// ranks.
//
// Each member adds the numbers of its own shards along the tree, and one all-reduce adds the members' sums. The result
// has the same bits on any number of members.
//
// Threads: the member's thread. Blocking: sum() waits for all members, as Group::start_all_reduce(). Errors: those of
// the group; InvariantError when two shards give unequally many numbers.
#pragma once
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/concurrency/trace.h"

namespace tandem::comm {

/// Sums vectors over the shards of all members of a group. Each member has an object of its own.
class GroupShardSum {
 public:
  /// `group` is not owned. Every sum() waits at most `patience`, or until `stop`. `before` is called at its begin.
  GroupShardSum(Group& group, Clock::duration patience, std::stop_token stop,
                std::function<void(const Limits&)> before = {})
      : group_(group), patience_(patience), stop_(std::move(stop)), before_(std::move(before)) {}

  /// Takes one vector for each shard of this member, in the order of the shards. All vectors of all members have the
  /// same length. Returns the sum over all shards of the run, in float64 along the tree of base/summation_tree.h; the
  /// reference is valid until the next call. Collective: every member calls it, and the call waits for the others.
  /// Throws GroupAborted when another member failed.
  [[nodiscard]] const std::vector<double>& sum(std::span<const std::vector<double>> shards) {
    // Plan: add the own shards pairwise in place, along the tree; the sum ends in the first shard's entry. Then one
    // all-reduce adds these over the members, along the part of the tree that is above them.
    const Span span("sum statistics");
    if (before_) before_(limits());
    partial_.resize(shards.size());
    std::ranges::copy(shards, partial_.begin());
    const auto at = [this](int shard) -> std::vector<double>& { return partial_[static_cast<std::size_t>(shard)]; };
    std::vector<double>& mine = at(tree_sum(
        Range{0, static_cast<int>(shards.size())}, [](int shard) { return shard; },
        [&](int into, int from) {
          TANDEM_CHECK(at(into).size() == at(from).size(), at(into).size(), " and ", at(from).size(), " numbers");
          std::ranges::transform(at(into), at(from), at(into).begin(), std::plus<>());
          return into;
        }));
    if (group_.size() == 1) return mine;
    // The tensor owns its memory, since other members may still write to it after a failed wait.
    const at::Tensor flat = at::empty({std::ssize(mine)}, at::kDouble);
    std::ranges::copy(mine, flat.mutable_data_ptr<double>());
    group_.start_all_reduce(flat).wait(limits());
    std::copy_n(flat.const_data_ptr<double>(), mine.size(), mine.begin());
    return mine;
  }

 private:
  [[nodiscard]] Limits limits() const { return {.deadline = Deadline::after(patience_), .stop = stop_}; }

  Group& group_;
  const Clock::duration patience_;
  const std::stop_token stop_;
  const std::function<void(const Limits&)> before_;
  std::vector<std::vector<double>> partial_;  // one entry a shard, kept for its memory; the sum ends in the first
};

}  // namespace tandem::comm
