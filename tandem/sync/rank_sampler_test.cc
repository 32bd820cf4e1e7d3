#include "tandem/sync/rank_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/samplers/serialize.h>
#include <torch/serialize.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "tandem/base/error.h"

namespace tandem::sync {
namespace {

using RankSteps = std::vector<std::vector<std::size_t>>;  // the rows of each

RankSteps steps_of_epoch(RankSampler& sampler, std::size_t batch_size) {
  RankSteps steps;
  while (auto rows = sampler.next(batch_size)) steps.push_back(*std::move(rows));
  return steps;
}

TEST(RankSamplerTest, AnEpochHasEveryRowOnceAndTheSameStepsOnAnyNumberOfRanks) {
  for (const std::size_t rows : {1U, 2U, 95U, 96U, 97U, 961U}) {
    RankSampler alone(rows, 0, 1, 5);
    const RankSteps whole = steps_of_epoch(alone, 96);
    for (const int ranks : {2, 3, 4}) {
      const std::size_t batch = 96 / static_cast<std::size_t>(ranks), steps = RankSampler::steps(rows, ranks, batch);
      EXPECT_EQ(steps, whole.size());
      std::vector<std::multiset<std::size_t>> together(steps);
      for (int rank = 0; rank < ranks; ++rank) {
        RankSampler sampler(rows, rank, ranks, 5);
        const RankSteps mine = steps_of_epoch(sampler, batch);
        EXPECT_GE(mine.size() + 1, steps);
        for (std::size_t step = 0; step < mine.size(); ++step) {
          EXPECT_LE(mine[step].size(), batch);
          together[step].insert(mine[step].begin(), mine[step].end());
        }
      }
      for (std::size_t step = 0; step < steps; ++step) {
        EXPECT_EQ(together[step], std::multiset<std::size_t>(whole[step].begin(), whole[step].end()))
            << rows << " rows, " << ranks << " ranks, step " << step;
      }
    }
  }
}

TEST(RankSamplerTest, EpochsDifferAndDependOnSeedAndNumberAlone) {
  RankSampler first(20, 0, 1, 7), other(20, 0, 1, 8), resumed(20, 0, 1, 7, /*first_epoch=*/2);
  std::vector<RankSteps> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    first.reset();
    EXPECT_EQ(first.epoch(), static_cast<std::size_t>(epoch));
    epochs.push_back(steps_of_epoch(first, 20));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[0], steps_of_epoch(other, 20));
  resumed.reset();
  EXPECT_EQ(steps_of_epoch(resumed, 20), epochs[2]);
  RankSampler plain(4, 0, 1, 7, 0, RankSampler::Order::kAsTheyAre);
  EXPECT_EQ(steps_of_epoch(plain, 2), (RankSteps{{0, 1}, {2, 3}}));
}

TEST(RankSamplerTest, ASavedOneGoesOnWithinItsEpoch) {
  RankSampler first(20, 1, 2, 7);
  first.reset();
  (void)first.next(3);
  std::stringstream file;
  torch::save(first, file);
  RankSampler second(20, 1, 2, 7);
  torch::load(second, file);
  EXPECT_EQ(steps_of_epoch(second, 3), steps_of_epoch(first, 3));
  second.reset();
  first.reset();
  EXPECT_EQ(steps_of_epoch(second, 3), steps_of_epoch(first, 3)) << "the next epoch";
}

TEST(RankSamplerTest, ImpossibleNumbersAreRefused) {
  EXPECT_THROW(RankSampler(0, 0, 1), ConfigError);
  EXPECT_THROW(RankSampler(3, 2, 2), ConfigError);
  EXPECT_THROW(RankSampler(3, -1, 2), ConfigError);
  EXPECT_THROW((void)RankSampler(3, 0, 1).next(0), ConfigError);
}

}  // namespace
}  // namespace tandem::sync
