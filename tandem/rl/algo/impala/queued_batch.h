// rl/algo/queued_batch.h: a slot of the queue between rollout workers and loaders: memory that is made once, into which
// a rollout worker's environments and policy write a batch, and from which a loader takes it.
//
// Threads: single-thread; whoever has the slot's lease.
#pragma once
#include <vector>

#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {

struct QueuedBatch {
  std::vector<Fragment> parts;  // of the worker's env groups, in their order: this rank's shards, of each its splits
  std::vector<double> results;  // of the groups, as append_results() writes them
};

}  // namespace tandem::rl
