// comm/testing/member_threads.h: the members of a group as threads.
#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/comm/local_group.h"

namespace tandem::comm {

/// Runs `work` as each of `size` members, in a thread of its own that first calls `join`; what() of each failure, or
/// "". A failure aborts the group. No member leaves before all have ended.
inline std::vector<std::string> run_joined(int size, const std::function<std::unique_ptr<Group>(int rank)>& join,
                                           const std::function<void(Group&)>& work) {
  std::vector<std::unique_ptr<Group>> groups(static_cast<std::size_t>(size));
  std::vector<std::string> outcomes(groups.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        groups[rank] = join(static_cast<int>(rank));
        work(*groups[rank]);
      } catch (const std::exception& error) {
        if (groups[rank] != nullptr) groups[rank]->abort(error.what());
        outcomes[rank] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

/// The same with a local group.
inline std::vector<std::string> run_as_members(int size, const std::function<void(Group&)>& work) {
  auto groups = make_local_group(size);
  return run_joined(
      size, [&](int rank) { return std::move(groups[static_cast<std::size_t>(rank)]); }, work);
}

/// Of outcomes such as run_joined() gives: nobody has failed.
inline void expect_all_return(const std::vector<std::string>& outcomes) {
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

}  // namespace tandem::comm
