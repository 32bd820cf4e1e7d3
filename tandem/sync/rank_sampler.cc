#include "tandem/sync/rank_sampler.h"

#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tandem/base/check.h"

namespace tandem::sync {

RankSampler::RankSampler(std::size_t rows, int rank, int ranks, std::uint64_t seed, std::size_t first_epoch,
                         Order order)
    : rows_(rows), rank_(rank), ranks_(ranks), seed_(seed), epoch_(first_epoch), order_(order) {
  TANDEM_EXPECTS(rows > 0, "a RankSampler of 0 rows; the data set is empty");
  TANDEM_EXPECTS(ranks >= 1 && rank >= 0 && rank < ranks, "a RankSampler of rank ", rank, " of ", ranks,
                 "; ranks count from 0");
  shuffle();
}

// std::mt19937_64 gives the same numbers everywhere, which std::shuffle does not; so Fisher-Yates is written out.
void RankSampler::shuffle() {
  all_.resize(rows_);
  std::iota(all_.begin(), all_.end(), std::size_t{0});
  taken_ = 0;
  if (order_ == Order::kAsTheyAre) return;
  std::seed_seq words{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32),
                      static_cast<std::uint32_t>(epoch_)};
  std::mt19937_64 random(words);
  for (std::size_t left = rows_; left > 1; --left) std::swap(all_[left - 1], all_[random() % left]);
}

void RankSampler::reset(std::optional<std::size_t> rows) {
  TANDEM_EXPECTS(rows.value_or(rows_) > 0, "a RankSampler of 0 rows; the data set is empty");
  rows_ = rows.value_or(rows_);
  if (stage_ == Stage::kRunning) ++epoch_;
  stage_ = Stage::kRunning;
  shuffle();
}

std::optional<std::vector<std::size_t>> RankSampler::next(std::size_t batch_size) {
  TANDEM_EXPECTS(batch_size > 0, "a batch of 0 rows; give 1 or more");
  const auto ranks = static_cast<std::size_t>(ranks_), rank = static_cast<std::size_t>(rank_);
  const std::size_t of_step = std::min(batch_size * ranks, rows_ - taken_);
  const std::size_t begin = taken_ + of_step * rank / ranks, end = taken_ + of_step * (rank + 1) / ranks;
  taken_ += of_step;
  if (begin == end) return std::nullopt;
  return std::vector<std::size_t>(all_.begin() + static_cast<std::ptrdiff_t>(begin),
                                  all_.begin() + static_cast<std::ptrdiff_t>(end));
}

std::size_t RankSampler::steps(std::size_t rows, int ranks, std::size_t batch_size) {
  TANDEM_EXPECTS(ranks >= 1 && batch_size > 0, "steps of ", ranks, " ranks with batches of ", batch_size, " rows");
  const std::size_t of_step = batch_size * static_cast<std::size_t>(ranks);
  return (rows + of_step - 1) / of_step;
}

void RankSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(static_cast<std::int64_t>(epoch_), torch::kInt64), /*is_buffer=*/true);
  archive.write("taken", torch::tensor(static_cast<std::int64_t>(taken_), torch::kInt64), /*is_buffer=*/true);
}

void RankSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch = torch::empty({1}, torch::kInt64), taken = torch::empty({1}, torch::kInt64);
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("taken", taken, /*is_buffer=*/true);
  const auto its_epoch = epoch.item<std::int64_t>(), its_taken = taken.item<std::int64_t>();
  TANDEM_EXPECTS(its_epoch >= 0 && its_taken >= 0 && its_taken <= static_cast<std::int64_t>(rows_),
                 "a saved RankSampler in epoch ", its_epoch, " behind ", its_taken, " of ", rows_, " rows");
  epoch_ = static_cast<std::size_t>(its_epoch);
  shuffle();
  taken_ = static_cast<std::size_t>(its_taken);
  stage_ = Stage::kRunning;
}

}  // namespace tandem::sync
