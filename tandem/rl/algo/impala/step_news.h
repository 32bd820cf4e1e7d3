// rl/algo/impala/step_news.h: the exchange between ranks after each learner step: the numbers of all shards, and the
// results of the batches that were new.
//
// Ranks make their steps together, each from a batch of its own. One rank's batch may be new while another rank makes a
// further pass over its batch. Samples, normalisers and episodes count for the next step of all ranks, so they are
// exchanged after each step, and all ranks have the same.
//
// Threads: single-thread, the learner's. Blocking: exchange() waits for the other ranks.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tandem/learner/ranks.h"
#include "tandem/rl/algo/impala/impala_loss.h"

namespace tandem::rl {

/// Means over the rows of all shards; of explained variances over those that have one.
/// NaN when no shard has rows.
[[nodiscard]] ImpalaNumbers mean_of(std::span<const ImpalaNumbers> shards);

/// Keeps the memory of the exchange, so that steps ask for none. The ranks must outlive it.
class StepNews {
 public:
  StepNews(const learner::Ranks& ranks, std::size_t policies);

  /// Collective. `new_samples`: 0 where the batch is gone over again. `policies`: by policy, the numbers of its shards;
  /// none of a policy that is not learned, or of a batch that was dropped. `results`: of the env groups, of a new
  /// batch. Hands `take` the results of each rank, in their order, writes each policy's means to `means`, and returns
  /// the new samples of all ranks. `take` may get an empty list, from a rank that made a further pass. Throws
  /// InvariantError when a message is too short, and what Ranks::gather() throws when a rank is lost.
  std::int64_t exchange(std::int64_t new_samples, std::span<const std::span<const ImpalaNumbers>> policies,
                        std::span<const double> results, std::span<ImpalaNumbers> means,
                        const std::function<void(std::span<const double>)>& take);

 private:
  const learner::Ranks& ranks_;
  // Memory of one exchange.
  std::vector<double> mine_;
  std::vector<std::vector<double>> all_;
  std::vector<std::vector<ImpalaNumbers>> shards_;  // by policy
};

}  // namespace tandem::rl
