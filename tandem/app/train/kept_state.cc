// share_newest() first compares counters of all ranks and moves tensors only when the ranks differ, which is rare.
#include "tandem/app/train/kept_state.h"

#include <span>
#include <utility>
#include <vector>

#include "tandem/base/error.h"

namespace tandem::app {

std::string line_from(const learner::Ranks& ranks, int root, const std::string& roots) {
  const std::vector<std::byte> bytes = ranks.from(root, std::as_bytes(std::span(roots)));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void share_newest(const learner::Ranks& ranks, KeptState& kept) {
  std::vector<double> mine{static_cast<double>(kept.updates)};
  learner::append_struct(kept.progress, mine);
  const std::vector<std::vector<double>> all = ranks.gather(mine);
  std::size_t newest = 0;
  bool differ = false;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    differ = differ || all[rank][0] != all[0][0];
    // The lowest rank wins a tie, so all ranks choose the same root.
    if (all[rank][0] > all[newest][0]) newest = rank;
  }
  const std::vector<double>& its = all[newest];
  if (its[0] < 0) throw RunError("none of the ranks that are left has the state of any update; begin anew");
  // A copy of what this rank gives: should another die meanwhile, it is needed in the next round.
  if (differ) {
    learner::StateParts parts = learner::parts_from(ranks, static_cast<int>(newest), kept.parts);
    kept.line = line_from(ranks, static_cast<int>(newest), kept.line);
    kept.parts = std::move(parts);
  }
  kept.updates = static_cast<std::int64_t>(its[0]);
  std::span<const double> progress = std::span(its).subspan(1);
  kept.progress = learner::take_struct<RunProgress>(progress);
}

}  // namespace tandem::app
