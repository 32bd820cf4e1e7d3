// base/summation_tree.h: the fixed order in which the shards of a run are summed.
//
// Float addition is not associative, so a sum has the same bits on any topology only if its association is fixed. Ours
// is recursive halving: the sum over a range is the sum over its first half plus the sum over its second half, and the
// first half takes the odd one. For five shards: ((0+1)+2)+(3+4).
//
// Members of a group are halved together with the shards, so each holds exactly one whole subtree and hands on a single
// partial sum; those are combined by the same halving over the members. This nests: ranks, then replicas of a rank.
#pragma once
#include <span>
#include <utility>

#include "tandem/base/check.h"

namespace tandem {

/// The integers begin .. end-1.
struct Range {
  int begin = 0, end = 0;
  [[nodiscard]] int size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// The two halves of a range of at least two; the first half has the odd one.
[[nodiscard]] std::pair<Range, Range> split(Range range);

/// The shards of member `member` of `members` when the subtree `shards` is divided among them. Never empty.
/// Throws ConfigError, naming the counts that work, when there are more members than shards, or fewer than one.
[[nodiscard]] Range subtree_of(Range shards, int members, int member);
/// The shards of replica `replica` in a whole run of `shards` shards.
[[nodiscard]] inline Range subtree_of(int shards, int replicas, int replica) {
  return subtree_of(Range{0, shards}, replicas, replica);
}

/// Whether summing within each part first, and then over the parts, gives the same bits as the tree over all members.
/// `parts` are the sizes of the parts, one after the other, each at least one. It holds when every part is a whole
/// subtree of the tree over all members: for 2 + 2 and 2 + 1, but not for 1 + 2 or 2 + 2 + 2, where the tree's halves
/// cut the second part.
[[nodiscard]] bool nests(std::span<const int> parts);

/// Combines leaf(i) of each i in `range`, which holds at least one, by combine(left, right) in the order of the tree.
template <typename Leaf, typename Combine>
[[nodiscard]] auto tree_sum(Range range, const Leaf& leaf, const Combine& combine) -> decltype(leaf(0)) {
  TANDEM_CHECK(range.size() > 0, "a sum over nothing");
  if (range.size() == 1) return leaf(range.begin);
  const auto [first, second] = split(range);
  auto left = tree_sum(first, leaf, combine);
  return combine(std::move(left), tree_sum(second, leaf, combine));
}

/// Sums leaves that come one after the other, with as few buffers as the tree needs. The buffers are the caller's: the
/// accumulator says into which of them the next leaf goes and which two to add. The sum ends up in buffer 0.
///
///   TreeAccumulator sum(shards.size());         // and sum.buffers() buffers
///   for (int shard : shards) {
///     compute(shard, buffer[sum.next()]);
///     sum.add([&](int into, int from) { buffer[into] += buffer[from]; });
///   }
///
/// Threads: single-thread. After a whole pass the accumulator is ready for the next one.
class TreeAccumulator {
 public:
  explicit TreeAccumulator(int leaves);

  /// The most buffers that are in use at once: the depth of the tree plus one.
  [[nodiscard]] int buffers() const;
  /// The buffer for the next leaf.
  [[nodiscard]] int next() const { return held_; }

  /// Says that the next leaf is in its buffer; calls merge(into, from) for each addition that is now due.
  template <typename Merge>
  void add(const Merge& merge) {
    const int merges = merges_after(leaf_++);
    ++held_;
    for (int i = 0; i < merges; ++i, --held_) merge(held_ - 2, held_ - 1);
    if (leaf_ == leaves_) leaf_ = held_ = 0;
  }

 private:
  // The number of inner nodes of the tree whose range ends with this leaf.
  [[nodiscard]] int merges_after(int leaf) const;

  const int leaves_;
  int leaf_ = 0;
  int held_ = 0;  // buffers that hold a partial sum
};

}  // namespace tandem
