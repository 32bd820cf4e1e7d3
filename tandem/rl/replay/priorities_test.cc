#include "tandem/rl/replay/priorities.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/replay/testing/draw.h"
#include "tandem/rl/replay/testing/specs.h"

namespace tandem::rl {
namespace {

// A part with priorities, and a past for it.
struct Ranked {
  explicit Ranked(PriorityOptions priorities, std::int64_t rows = 40, int n_step = 1)
      : past(plain_spec(1), 2, 5),
        options{.rows = rows, .n_step = n_step, .priorities = priorities},
        part(past.spec(), 2, options, 3) {
    past.begin(part);
  }
  [[nodiscard]] std::map<std::int64_t, int> counts(std::int64_t rows) {
    std::map<std::int64_t, int> counts;
    for (const std::int64_t row : Draw(part, past.spec(), rows).row) ++counts[row];
    return counts;
  }
  void update(const std::vector<std::int64_t>& rows, const std::vector<double>& priorities) {
    part.update_priorities(rows, priorities);
  }
  Past past;
  ReplayOptions options;
  ReplayPart part;
};

TEST(PrioritiesTest, RowsAreDrawnInProportionToTheirShares) {
  Ranked ranked({.alpha = 0.5, .epsilon = 0});
  ranked.past.steps(ranked.part, 4);
  ranked.update({0, 1, 2, 3, 4, 5, 6, 7}, {1, 4, 9, 16, 0, 25, 36, 49});
  // Shares 1 2 3 4 0 5 6 7 of 28: cut into 28,000 ranges, each whole share has 1,000 of them.
  const auto counts = ranked.counts(28'000);
  EXPECT_EQ(counts.size(), 7U);
  for (const auto& [row, share] : std::map<std::int64_t, int>{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {5, 5}, {6, 6}, {7, 7}})
    EXPECT_NEAR(counts.at(row), share * 1000, 1) << row;
}

TEST(PrioritiesTest, WeightsAreThoseOfTheFormula) {
  Ranked ranked({.alpha = 0.7, .epsilon = 0.01}, 200);
  ranked.past.steps(ranked.part, 60);
  Philox random(4);
  std::vector<std::int64_t> rows;
  std::vector<double> priorities;
  double sum = 0;
  for (std::int64_t row = 0; row < 120; ++row) {
    rows.push_back(row);
    priorities.push_back(std::exp(3 * random.normal()));
    sum += std::pow(priorities.back() + 0.01, 0.7);
  }
  ranked.update(rows, priorities);
  for (const double beta : {0.0, 0.4, 1.0}) {
    const Draw draw(ranked.part, ranked.past.spec(), 300, beta);
    for (std::size_t i = 0; i < draw.row.size(); ++i) {
      const double chance = std::pow(priorities[static_cast<std::size_t>(draw.row[i])] + 0.01, 0.7) / sum;
      const double weight = std::pow(120 * chance, -beta);
      EXPECT_NEAR(draw.weight[i], weight, 1e-10 * weight);
    }
  }
}

TEST(PrioritiesTest, WherePrioritiesAreAllZeroEveryRowHasTheSameChance) {
  Ranked ranked({.alpha = 0.6, .epsilon = 0});
  ranked.past.steps(ranked.part, 30);  // rows 20 .. 59 are held
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 20; row < 60; ++row) rows.push_back(row);
  ranked.update(rows, std::vector<double>(40, 0));
  const Draw draw(ranked.part, ranked.past.spec(), 40'000, 1);
  std::map<std::int64_t, int> counts;
  for (const std::int64_t row : draw.row) ++counts[row];
  EXPECT_EQ(counts.size(), 40U);
  EXPECT_EQ(counts.begin()->first, 20);
  for (const auto& entry : counts) EXPECT_NEAR(entry.second, 1000, 1);
  EXPECT_EQ(draw.weight, std::vector<double>(40'000, 1.0));
}

TEST(PrioritiesTest, AlphaZeroDrawsUniformlyWhateverThePriorities) {
  Ranked ranked({.alpha = 0, .epsilon = 1e-6});
  ranked.past.steps(ranked.part, 5);
  ranked.update({0, 1, 2}, {100, 0, 1e-9});
  for (const auto& entry : ranked.counts(10'000)) EXPECT_NEAR(entry.second, 1000, 1);
}

TEST(PrioritiesTest, NewRowsGetTheLargestPrioritySoFar) {
  Ranked ranked({.alpha = 1, .epsilon = 0});
  ranked.past.steps(ranked.part, 1);
  EXPECT_EQ(ranked.part.stats().priority_mean, 1) << "1 at first";
  ranked.update({0, 1}, {8, 2});
  ranked.update({0, 1}, {3, 3});
  ranked.past.steps(ranked.part, 1);  // rows 2 and 3 of 8
  EXPECT_EQ(ranked.part.stats().priority_mean, (3 + 3 + 8 + 8) / 4.0);
  EXPECT_EQ(ranked.part.stats().priority_max, 8);
}

TEST(PrioritiesTest, RowsThatWereOverwrittenSinceArePassedOver) {
  Ranked ranked({.alpha = 1, .epsilon = 0});
  ranked.past.steps(ranked.part, 20);  // rows 0 .. 39: full
  ranked.past.steps(ranked.part, 3);   // rows 0 .. 5 gave way to 40 .. 45, which lie in their places
  const double before = ranked.part.stats().priority_mean;
  ranked.update({0, 3, 5}, {1000, 1000, 1000});
  EXPECT_EQ(ranked.part.stats().priority_mean, before);
  EXPECT_EQ(ranked.part.stats().priority_max, 1) << "their priorities count for nothing";
  ranked.update({6}, {41});
  EXPECT_EQ(ranked.part.stats().priority_mean, 2) << "the oldest that is held: 39 rows of 1, and 41";
}

TEST(PrioritiesTest, OverwrittenRowsAreNeverDrawn) {
  Ranked ranked({.alpha = 1, .epsilon = 0});
  Philox random(8);
  ranked.past.steps(ranked.part, 3);
  for (int round = 0; round < 60; ++round) {
    ranked.past.step(ranked.part);
    const Draw draw(ranked.part, ranked.past.spec(), 30);
    expect_all_as_in(ranked.past, ranked.options, draw);
    const std::int64_t now = ranked.past.now();
    for (const std::int64_t row : draw.row) ASSERT_GE(row, (now - 20) * 2);
    std::vector<double> priorities(30);
    for (double& priority : priorities) priority = random.below(3) == 0 ? 0 : std::exp(random.normal());
    ranked.part.update_priorities(draw.row, priorities);
  }
}

TEST(PrioritiesTest, RowsEnterWhenTheirWindowsAreComplete) {
  Ranked ranked({.alpha = 1, .epsilon = 0}, 40, 5);
  ranked.past.steps(ranked.part, 60);
  std::set<std::int64_t> rows;
  for (const auto& entry : ranked.counts(1000)) rows.insert(entry.first);
  EXPECT_EQ(rows.size(), 2U * 16);
  EXPECT_EQ(*rows.rbegin(), 56 * 2 - 1);
  EXPECT_THROW(ranked.update({56 * 2}, {1}), ConfigError) << "nobody can have drawn it yet";
}

TEST(PrioritiesTest, OfEqualRowsTheLastPriorityCounts) {
  Ranked ranked({.alpha = 1, .epsilon = 0});
  ranked.past.steps(ranked.part, 1);
  ranked.update({0, 0, 0}, {5, 7, 3});
  EXPECT_EQ(ranked.part.stats().priority_mean, (3 + 1) / 2.0);
}

TEST(PrioritiesTest, NumbersThatAreNoPrioritiesAreRefusedBeforeAnyIsChanged) {
  Ranked ranked({.alpha = 1, .epsilon = 0});
  ranked.past.steps(ranked.part, 2);
  for (const double wrong : {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(ranked.update({0, 1}, {9, wrong}), ConfigError);
  EXPECT_THROW(ranked.update({0, -1}, {9, 1}), ConfigError);
  EXPECT_THROW(ranked.update({0, 4}, {9, 1}), ConfigError) << "row 4 is still to come";
  EXPECT_THROW(ranked.update({0, 1}, {9}), ConfigError);
  EXPECT_EQ(ranked.part.stats().priority_mean, 1);
}

TEST(PrioritiesTest, StepsThatAreGivenUpForWantOfEndsLeaveToo) {
  const ReplayOptions options{.rows = 1000, .n_step = 6, .ends = 4, .priorities = PriorityOptions{}};
  Past past(plain_spec(1), 4, 6, {.terminated = 0, .truncated = 40, .both = 0});
  ReplayPart part(past.spec(), 4, options, 9);
  past.begin(part);
  int draws = 0;
  for (int round = 0; round < 200; ++round) {
    past.step(part);
    if (part.drawable() == 0) {  // often not even one window of 6 steps is left
      EXPECT_EQ(part.stats().priority_mean, 0);
      continue;
    }
    const Draw draw(part, past.spec(), 20);
    expect_all_as_in(past, options, draw);
    const std::int64_t oldest = past.now() * 4 - part.stats().rows;
    for (const std::int64_t row : draw.row) ASSERT_GE(row, oldest);
    part.update_priorities(draw.row, std::vector<double>(20, 2));
    ++draws;
  }
  EXPECT_GT(draws, 0);
}

TEST(PrioritiesTest, SharesThatCannotBeRightAreNotRestored) {
  Priorities priorities({.alpha = 1, .epsilon = 0}, 10, 2);
  EXPECT_TRUE(priorities.restore(3, 4, 5, std::vector<double>{1, 2, 5, 0}));
  EXPECT_EQ(priorities.rows(), 4);
  EXPECT_EQ(priorities.mean_share(), 2);
  EXPECT_FALSE(priorities.restore(3, 4, 5, std::vector<double>{1, 2, 6, 0})) << "above the largest";
  EXPECT_EQ(priorities.rows(), 0);
  EXPECT_FALSE(priorities.restore(3, 4, 5, std::vector<double>{1, 2, -1, 0}));
  EXPECT_FALSE(priorities.restore(3, 4, 5, std::vector<double>{1, 2, std::nan(""), 0}));
  EXPECT_FALSE(priorities.restore(3, 4, std::nan(""), std::vector<double>{1, 2, 0, 0}));
  EXPECT_FALSE(priorities.restore(3, 4, 5, std::vector<double>{1, 2, 0}));
  EXPECT_FALSE(priorities.restore(3, 14, 5, std::vector<double>(24, 1))) << "more than there is place for";
}

}  // namespace
}  // namespace tandem::rl
