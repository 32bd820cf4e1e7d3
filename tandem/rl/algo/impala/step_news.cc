#include "tandem/rl/algo/impala/step_news.h"

#include <cmath>

#include "tandem/base/check.h"

namespace tandem::rl {

// Weighted by rows. The mean of no rows is not a number.
ImpalaNumbers mean_of(std::span<const ImpalaNumbers> shards) {
  ImpalaNumbers mean;
  double explained = 0;  // rows of the shards that have an explained variance
  for (const ImpalaNumbers& shard : shards) {
    if (shard.rows == 0) continue;
    const auto rows = static_cast<double>(shard.rows);
    mean.rows += shard.rows;
    for (const auto& [name, loss] : kLosses) mean.*loss += rows * shard.*loss;
    // NaN means that the shard's targets were all equal, so there is no variance to explain. A NaN in any other number
    // is a fault, and must show in the mean.
    if (std::isnan(shard.explained_variance)) continue;
    mean.explained_variance += rows * shard.explained_variance;
    explained += rows;
  }
  mean /= static_cast<double>(mean.rows);
  mean.explained_variance /= explained;
  return mean;
}

StepNews::StepNews(const learner::Ranks& ranks, std::size_t policies) : ranks_(ranks), shards_(policies) {}

// Each rank's message: new samples; for each policy the number of its shards, and each shard's numbers; then the
// results of the env groups, to the end. Ranks are read in their order, so all make the same means.
std::int64_t StepNews::exchange(std::int64_t new_samples, std::span<const std::span<const ImpalaNumbers>> policies,
                                std::span<const double> results, std::span<ImpalaNumbers> means,
                                const std::function<void(std::span<const double>)>& take) {
  TANDEM_CHECK(policies.size() == shards_.size() && means.size() == shards_.size(), policies.size(), " policies, ",
               means.size(), " means of them, for ", shards_.size());
  mine_.assign({static_cast<double>(new_samples)});
  for (const std::span<const ImpalaNumbers> policy : policies) {
    mine_.push_back(static_cast<double>(policy.size()));
    for (const ImpalaNumbers& shard : policy) learner::append_struct(shard, mine_);
  }
  mine_.insert(mine_.end(), results.begin(), results.end());
  ranks_.gather(mine_, all_);

  new_samples = 0;
  for (std::vector<ImpalaNumbers>& shards : shards_) shards.clear();
  for (const std::vector<double>& rank : all_) {
    std::span<const double> its = rank;
    new_samples += static_cast<std::int64_t>(learner::take_struct<double>(its));
    for (std::vector<ImpalaNumbers>& shards : shards_) {
      for (auto left = learner::take_struct<double>(its); left > 0; --left)
        shards.push_back(learner::take_struct<ImpalaNumbers>(its));
    }
    take(its);
  }
  for (std::size_t policy = 0; policy < shards_.size(); ++policy) means[policy] = mean_of(shards_[policy]);
  return new_samples;
}

}  // namespace tandem::rl
