// rl/algo/step_news.h: what a learner step is to the whole run: what the shards of all ranks made of it, and what the
// batches tell that were new to it.
//
// Ranks make their steps together, each from a batch of its own. A rank's batch may be new while another's is gone over
// again, so what counts for the next step of all, samples, normalisers and episodes, is exchanged after each: all ranks
// have the same of it.
//
// Threads: single-thread, the learner's. Blocking: exchange() waits for the other ranks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/learner/ranks.h"
#include "tandem/rl/algo/impala_loss.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/episodes.h"

namespace tandem::rl {

/// Means over the shards; of explained variances over those that have one.
[[nodiscard]] ImpalaNumbers mean_of(std::span<const ImpalaNumbers> shards);

class StepNews {
 public:
  StepNews(const learner::Ranks& ranks, const Spec& spec, const NormalizerOptions& normalizer);

  /// What one rank has to tell.
  struct Mine {
    std::int64_t new_samples = 0;           // 0: the batch is gone over again
    std::span<const ImpalaNumbers> shards;  // of its own; none of a batch that was dropped
    std::span<const double> results;        // of its env groups, of a new batch; see append_results()
  };
  struct News {
    std::int64_t new_samples = 0;
    ImpalaNumbers numbers;  // means over all shards
  };
  /// Collective. Merges what the env groups of new batches saw into `normalizers`, in the order of the shards, and
  /// writes the episodes that ended in them.
  News exchange(const Mine& mine, Normalizers& normalizers, std::vector<Episode>& episodes);

 private:
  const learner::Ranks& ranks_;
  NormalizerMoments moments_;
  // Memory of one exchange.
  std::vector<double> mine_;
  std::vector<std::vector<double>> all_;
  std::vector<ImpalaNumbers> shards_;
};

}  // namespace tandem::rl
