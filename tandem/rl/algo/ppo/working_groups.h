// rl/algo/ppo/working_groups.h: which env groups of a run make steps while some of its ranks are missing and the others
// do no more than their own share.
//
// Shards, and with them env groups, belong to places in the summation tree, not to ranks: those that are left hold all
// of them. So that none samples more than before, as many groups rest as the missing ranks' share: their environments
// stay where they are, and their shards bring no rows. Which ones rest follows from who holds how many, so that those
// that are left have equally much to do, to one group; it need not be the groups of those that are missing.
//
// All ranks compute the same answer from the same counts, so that nobody has to be told.
//
// Threads: any.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "tandem/base/summation_tree.h"

namespace tandem::rl {

/// Whether env groups make steps while ranks are missing.
enum class WhileMissing {
  kAllWork,    // those that are left step all of them
  kShareRests  // those of the missing ranks' share make no steps
};

/// By group: its place among those that make steps; nothing when it rests. `replicas`: the groups of each replica that
/// is there, one after the other from 0. `present` of `all` ranks are there: that share of the groups works, rounded
/// down, but one a replica at least. From the replica with the most that work rests its last, until they are so many.
/// Throws InvariantError when there is no replica, or `present` is not within 1 .. `all`.
[[nodiscard]] std::vector<std::optional<int>> working_groups(std::span<const Range> replicas, int present, int all);

}  // namespace tandem::rl
