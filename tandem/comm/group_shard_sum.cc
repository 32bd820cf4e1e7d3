#include "tandem/comm/group_shard_sum.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/summation_tree.h"

namespace tandem::comm {
namespace {

using Numbers = std::vector<double>;

void add(Numbers& into, const Numbers& from) {
  TANDEM_CHECK(into.size() == from.size(), into.size(), " and ", from.size(), " numbers");
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += from[i];
}

}  // namespace

// Plan: add the own shards pairwise in place, along the tree; the sum ends in the first shard's entry. Then one
// all-reduce adds these over the members, along the part of the tree that is above them.
const Numbers& GroupShardSum::sum(std::span<const Numbers> shards) {
  partial_.resize(shards.size());
  std::ranges::copy(shards, partial_.begin());
  const auto at = [this](int shard) -> Numbers& { return partial_[static_cast<std::size_t>(shard)]; };
  Numbers& mine = at(tree_sum(
      Range{0, static_cast<int>(shards.size())}, [](int shard) { return shard; },
      [&](int into, int from) {
        add(at(into), at(from));
        return into;
      }));
  if (group_.size() == 1) return mine;
  // The tensor owns its memory, since other members may still write to it after a failed wait.
  const at::Tensor flat = at::empty({std::ssize(mine)}, at::kDouble);
  std::ranges::copy(mine, flat.mutable_data_ptr<double>());
  group_.start_all_reduce(flat).wait({.deadline = Deadline::after(patience_), .stop = stop_});
  std::copy_n(flat.const_data_ptr<double>(), mine.size(), mine.begin());
  return mine;
}

}  // namespace tandem::comm
