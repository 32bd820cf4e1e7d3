#include "tandem/rl/algo/ppo/working_groups.h"

#include <algorithm>
#include <cstdint>

#include "tandem/base/check.h"

namespace tandem::rl {

// Groups are taken from the replica that has most of them left until only the share of the present ranks works; then
// the first ones of each replica get places, counted through.
std::vector<std::optional<int>> working_groups(std::span<const Range> replicas, int present, int all) {
  TANDEM_CHECK(!replicas.empty() && 0 < present && present <= all, present, " of ", all, " ranks");
  const auto groups = static_cast<std::size_t>(replicas.back().end);
  std::vector<int> work;  // how many of each replica's
  for (const Range& its : replicas) work.push_back(its.size());
  const auto share = static_cast<std::size_t>(static_cast<std::int64_t>(groups) * present / all);
  for (std::size_t left = groups; left > std::max(share, replicas.size()); --left) --*std::ranges::max_element(work);

  std::vector<std::optional<int>> places(groups);
  int next = 0;
  for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
    const int first = replicas[replica].begin;
    for (int group = first; group < first + work[replica]; ++group) places[static_cast<std::size_t>(group)] = next++;
  }
  return places;
}

}  // namespace tandem::rl
