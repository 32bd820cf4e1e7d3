#include "tandem/rl/algo/impala/step_news.h"

#include <array>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem::rl {
namespace {

// The numbers of a shard, in the order in which they travel; kLosses has the same numbers of a report, in the same
// order.
constexpr std::array kNumbers{&ImpalaNumbers::policy_loss, &ImpalaNumbers::value_loss,
                              &ImpalaNumbers::entropy,     &ImpalaNumbers::approx_kl,
                              &ImpalaNumbers::cut,         &ImpalaNumbers::explained_variance};

constexpr std::array kLosses{&LearnReport::policy_loss, &LearnReport::value_loss,    &LearnReport::entropy,
                             &LearnReport::approx_kl,   &LearnReport::clip_fraction, &LearnReport::explained_variance};

double take_one(std::span<const double>& numbers) {
  TANDEM_CHECK(!numbers.empty(), "a rank told too little of its step");
  const double first = numbers.front();
  numbers = numbers.subspan(1);
  return first;
}

void append(std::span<const ImpalaNumbers> shards, std::vector<double>& numbers) {
  numbers.push_back(static_cast<double>(shards.size()));
  for (const ImpalaNumbers& shard : shards) {
    numbers.push_back(static_cast<double>(shard.rows));
    for (const auto number : kNumbers) numbers.push_back(shard.*number);
  }
}

// append() above wrote these: a count, then rows and numbers of each shard.
void take_shards(std::span<const double>& numbers, std::vector<ImpalaNumbers>& shards) {
  const auto count = static_cast<std::size_t>(take_one(numbers));
  for (std::size_t i = 0; i < count; ++i) {
    ImpalaNumbers& shard = shards.emplace_back();
    shard.rows = static_cast<std::int64_t>(take_one(numbers));
    for (const auto number : kNumbers) shard.*number = take_one(numbers);
  }
}

}  // namespace

// Weighted by rows. The mean of no rows is not a number.
ImpalaNumbers mean_of(std::span<const ImpalaNumbers> shards) {
  ImpalaNumbers mean;
  for (const ImpalaNumbers& shard : shards) mean.rows += shard.rows;
  for (const auto number : kNumbers) {
    std::int64_t rows = 0;
    for (const ImpalaNumbers& shard : shards) {
      if (shard.rows == 0) continue;
      // NaN means that the shard's targets were all equal, so there is no variance to explain. A NaN in any other
      // number is a fault, and must show in the mean.
      if (number == &ImpalaNumbers::explained_variance && std::isnan(shard.*number)) continue;
      mean.*number += static_cast<double>(shard.rows) * shard.*number;
      rows += shard.rows;
    }
    mean.*number /= static_cast<double>(rows);  // not a number when no shard has one
  }
  return mean;
}

void add_numbers(const ImpalaNumbers& numbers, LearnReport& sums) {
  ++sums.minibatches;
  for (std::size_t i = 0; i < kNumbers.size(); ++i) sums.*kLosses[i] += numbers.*kNumbers[i];
}

void take_means(const LearnReport& sums, LearnReport& means) {
  const auto count = static_cast<double>(sums.minibatches);  // of none the means are not a number
  take_losses(sums, means);
  for (const auto mean : kLosses) means.*mean /= count;
}

void take_losses(const LearnReport& from, LearnReport& to) {
  for (const auto loss : kLosses) to.*loss = from.*loss;
}

StepNews::StepNews(const learner::Ranks& ranks, std::size_t policies) : ranks_(ranks), shards_(policies) {}

// Each rank's message: new samples; for each policy the number of its shards, and each shard's numbers; then the
// results of the env groups, to the end. Ranks are read in their order, so all make the same means.
std::int64_t StepNews::exchange(const Mine& mine, std::span<ImpalaNumbers> means,
                                const std::function<void(std::span<const double>)>& take) {
  TANDEM_CHECK(mine.policies.size() == shards_.size() && means.size() == shards_.size(), mine.policies.size(),
               " policies, ", means.size(), " means of them, for ", shards_.size());
  mine_.assign({static_cast<double>(mine.new_samples)});
  for (const std::span<const ImpalaNumbers> policy : mine.policies) append(policy, mine_);
  mine_.insert(mine_.end(), mine.results.begin(), mine.results.end());
  ranks_.gather(mine_, all_);

  std::int64_t new_samples = 0;
  for (std::vector<ImpalaNumbers>& shards : shards_) shards.clear();
  for (const std::vector<double>& rank : all_) {
    std::span<const double> its = rank;
    new_samples += static_cast<std::int64_t>(take_one(its));
    for (std::vector<ImpalaNumbers>& shards : shards_) take_shards(its, shards);
    take(its);
  }
  for (std::size_t policy = 0; policy < shards_.size(); ++policy) means[policy] = mean_of(shards_[policy]);
  return new_samples;
}

}  // namespace tandem::rl
