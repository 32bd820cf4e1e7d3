// comm/testing/member_threads.h: the members of a local group as threads.
#pragma once
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tandem/comm/local_group.h"

namespace tandem::comm {

/// Runs `work` as each member of a local group, in a thread of its own; what() of each failure, or "". A failure aborts
/// the group.
inline std::vector<std::string> run_as_members(int size, const std::function<void(Group&)>& work) {
  const auto groups = make_local_group(size);
  std::vector<std::string> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(*groups[rank]);
      } catch (const std::exception& error) {
        groups[rank]->abort(error.what());
        outcomes[rank] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

}  // namespace tandem::comm
