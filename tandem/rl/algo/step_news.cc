#include "tandem/rl/algo/step_news.h"

#include <array>
#include <cmath>

#include "tandem/base/check.h"
#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {
namespace {

constexpr std::array kNumbers{&ImpalaNumbers::policy_loss, &ImpalaNumbers::value_loss,
                              &ImpalaNumbers::entropy,     &ImpalaNumbers::approx_kl,
                              &ImpalaNumbers::cut,         &ImpalaNumbers::explained_variance};

}  // namespace

ImpalaNumbers mean_of(std::span<const ImpalaNumbers> shards) {
  ImpalaNumbers mean;
  for (const auto number : kNumbers) {
    int count = 0;
    for (const ImpalaNumbers& shard : shards) {
      // Of equal targets no variance can be explained. Any other number that is not one is to be seen.
      if (number == &ImpalaNumbers::explained_variance && std::isnan(shard.*number)) continue;
      mean.*number += shard.*number;
      ++count;
    }
    mean.*number /= count;  // not a number when no shard has one
  }
  return mean;
}

StepNews::StepNews(const learner::Ranks& ranks, const Spec& spec, const NormalizerOptions& normalizer)
    : ranks_(ranks), moments_(spec, normalizer) {}

StepNews::News StepNews::exchange(const Mine& mine, Normalizers& normalizers, std::vector<Episode>& episodes) {
  mine_.assign({static_cast<double>(mine.new_samples), static_cast<double>(mine.shards.size())});
  for (const ImpalaNumbers& shard : mine.shards) {
    for (const auto number : kNumbers) mine_.push_back(shard.*number);
  }
  mine_.insert(mine_.end(), mine.results.begin(), mine.results.end());
  ranks_.gather(mine_, all_);

  News news;
  episodes.clear();
  shards_.clear();
  for (const std::vector<double>& rank : all_) {
    TANDEM_CHECK(rank.size() >= 2, "a rank told ", rank.size(), " numbers of its step");
    news.new_samples += static_cast<std::int64_t>(rank[0]);
    const auto count = static_cast<std::size_t>(rank[1]);
    std::span<const double> its = std::span(rank).subspan(2);
    for (std::size_t i = 0; i < count; ++i) {
      ImpalaNumbers& shard = shards_.emplace_back();
      for (const auto number : kNumbers) {
        shard.*number = its.front();
        its = its.subspan(1);
      }
    }
    take_results(its, moments_, normalizers, episodes);
  }
  news.numbers = mean_of(shards_);
  if (news.new_samples > 0) normalizers.finish_merge();
  return news;
}

}  // namespace tandem::rl
