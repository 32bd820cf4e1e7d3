#include "tandem/comm/group_shard_sum.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/summation_tree.h"

namespace tandem::comm {
namespace {

using Numbers = std::vector<double>;

Numbers add(Numbers left, const Numbers& right) {
  TANDEM_CHECK(left.size() == right.size(), left.size(), " and ", right.size(), " numbers");
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

}  // namespace

Numbers GroupShardSum::sum(std::span<const Numbers> shards) {
  const auto shard = [&](int i) { return shards[static_cast<std::size_t>(i)]; };
  Numbers mine = tree_sum(Range{0, static_cast<int>(shards.size())}, shard, add);
  if (group_.size() == 1) return mine;
  // A tensor that owns its memory: should this wait fail, others may still write to it.
  const at::Tensor flat = at::empty({std::ssize(mine)}, at::kDouble);
  std::ranges::copy(mine, flat.mutable_data_ptr<double>());
  group_.start_all_reduce(flat).wait({.deadline = Deadline::after(patience_), .stop = stop_});
  std::copy_n(flat.const_data_ptr<double>(), mine.size(), mine.begin());
  return mine;
}

}  // namespace tandem::comm
