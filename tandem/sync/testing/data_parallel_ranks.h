// sync/testing/data_parallel_ranks.h: the ranks of a DataParallel as threads.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/comm/local_group.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::sync {

/// Runs `work` as each rank of a local group, in a thread of its own; what() of each failure, or "". A failure aborts
/// the group.
inline std::vector<std::string> run_as_ranks(int size, const std::function<void(comm::Group&)>& work) {
  const auto groups = comm::make_local_group(size);
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

inline DataParallelOptions with_sgd() {
  return {.optimizer = {model::SgdOptions{.lr = 0.1}}, .patience = std::chrono::seconds(20)};
}

inline DataParallelOptions without_optimizer() { return {.patience = std::chrono::seconds(20)}; }

}  // namespace tandem::sync
