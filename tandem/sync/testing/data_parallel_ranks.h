// sync/testing/data_parallel_ranks.h: the ranks of a DataParallel as threads, and its usual options.
#pragma once
#include <chrono>

#include "tandem/comm/testing/member_threads.h"
#include "tandem/sync/data_parallel.h"

namespace tandem::sync {

using comm::run_as_members;

inline DataParallelOptions with_sgd() {
  return {.optimizer = {model::SgdOptions{.lr = 0.1}}, .patience = std::chrono::seconds(20)};
}

inline DataParallelOptions without_optimizer() { return {.patience = std::chrono::seconds(20)}; }

}  // namespace tandem::sync
