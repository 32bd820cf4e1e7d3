// learner/testing/local_ranks.h: ranks of a run that are threads of one process.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "tandem/comm/local_group.h"
#include "tandem/learner/ranks.h"

namespace tandem::learner {

/// Each is for one thread.
inline std::vector<Ranks> make_local_ranks(int count) {
  std::vector<Ranks> ranks;
  for (auto& member : comm::make_local_group(count)) {
    std::shared_ptr<comm::Group> group = std::move(member);
    ranks.emplace_back(std::move(group));
  }
  return ranks;
}

}  // namespace tandem::learner
