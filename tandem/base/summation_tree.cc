#include "tandem/base/summation_tree.h"

#include <bit>
#include <numeric>

#include "tandem/base/error.h"

namespace tandem {

std::pair<Range, Range> split(Range range) {
  TANDEM_CHECK(range.size() >= 2, "cannot halve a range of ", range.size());
  const int middle = range.begin + (range.size() + 1) / 2;
  return {Range{range.begin, middle}, Range{middle, range.end}};
}

Range subtree_of(Range shards, int members, int member) {
  if (shards.size() < 1) throw ConfigError(concat(shards.size(), " shards; there must be at least 1"));
  if (members < 1 || members > shards.size()) {
    throw ConfigError(concat(shards.size(), shards.size() == 1 ? " shard" : " shards", " cannot be divided among ",
                             members, " replicas: each holds one ", "whole subtree of the sum. Use ",
                             shards.size() == 1 ? "1 replica" : concat("1 to ", shards.size(), " replicas"),
                             ", or at least ", members, " shards"));
  }
  TANDEM_CHECK(member >= 0 && member < members, "member ", member, " of ", members);
  // Both halvings round up, so a half never has fewer shards than members.
  Range group{0, members};
  while (group.size() > 1) {
    const auto [first_members, second_members] = split(group);
    const auto [first_shards, second_shards] = split(shards);
    const bool in_first = member < first_members.end;
    group = in_first ? first_members : second_members;
    shards = in_first ? first_shards : second_shards;
  }
  return shards;
}

// The sum over the first half of the parts must be the first half of the tree over all members, and so on within both.
bool nests(std::span<const int> parts) {
  if (parts.size() < 2) return true;
  const auto [first, second] = split(Range{0, static_cast<int>(parts.size())});
  const auto left = parts.first(static_cast<std::size_t>(first.size()));
  const auto right = parts.last(static_cast<std::size_t>(second.size()));
  const int members = std::accumulate(parts.begin(), parts.end(), 0);
  return std::accumulate(left.begin(), left.end(), 0) == split(Range{0, members}).first.size() && nests(left) &&
         nests(right);
}

TreeAccumulator::TreeAccumulator(int leaves) : leaves_(leaves) {
  TANDEM_CHECK(leaves > 0, "a sum over ", leaves, " leaves");
}

// A pending sum stands for one node on the way from the root to the leaf, of each level at most one.
int TreeAccumulator::buffers() const { return std::bit_width(static_cast<unsigned>(leaves_)); }

// Walks from the root to the leaf and counts the nodes whose last leaf it is: their sums become complete with it.
int TreeAccumulator::merges_after(int leaf) const {
  int count = 0;
  for (Range node{0, leaves_}; node.size() > 1;) {
    if (node.end == leaf + 1) ++count;
    const auto [first, second] = split(node);
    node = leaf < first.end ? first : second;
  }
  return count;
}

}  // namespace tandem
