#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/learner/loaded_batch.h"

namespace tandem::learner {
namespace {

using ::testing::HasSubstr;

TEST(LoadPlanTest, SevenSequencesOfThreeOnTwoShardsUseSix) {
  const LoadPlan plan = plan_load({.rows = 21, .sequences = 7, .shards = 2, .minibatch_rows = 6});
  EXPECT_EQ(plan.sequence_length, 3);
  EXPECT_EQ(plan.shard_sequences, 3);
  EXPECT_EQ(plan.rows_of(0), 12) << "the seventh sequence";
  EXPECT_EQ(plan.rows_of(1), 9);
  EXPECT_EQ(plan.minibatch_shard_rows(), 3);
  EXPECT_EQ(plan.minibatches, 3);
  EXPECT_EQ(plan.used, 18);
  EXPECT_EQ(plan.dropped, 3);
  EXPECT_EQ(plan.notice, "");
}

TEST(LoadPlanTest, RowsNeitherDividedByShardsNorMinibatchesAreDroppedAndCounted) {
  const LoadPlan plan = plan_load({.rows = 103, .shards = 4, .minibatch_rows = 32});
  EXPECT_EQ(plan.rows_of(2), 26);
  EXPECT_EQ(plan.rows_of(3), 25);
  EXPECT_EQ(plan.minibatch_shard_rows(), 8);
  EXPECT_EQ(plan.minibatches, 3);
  EXPECT_EQ(plan.used, 96);
  EXPECT_EQ(plan.dropped, 7);
  EXPECT_EQ(plan.used + plan.dropped, plan.offered);
}

TEST(LoadPlanTest, PaddingUsesEveryRowOfTheShardsAndCountsWhatItAdds) {
  const LoadPlan plan = plan_load({.rows = 100, .shards = 4, .minibatch_rows = 32, .tail = Tail::kPad});
  EXPECT_EQ(plan.minibatches, 4);
  EXPECT_EQ(plan.used, 100);
  EXPECT_EQ(plan.padded, 28);
  EXPECT_EQ(plan.dropped, 0);
}

TEST(LoadPlanTest, WrappingFillsTheLastMinibatchFromTheBeginning) {
  const LoadPlan plan = plan_load({.rows = 100, .shards = 4, .minibatch_rows = 32, .tail = Tail::kWrap});
  EXPECT_EQ(plan.minibatches, 4);
  EXPECT_EQ(plan.used, 128);
  EXPECT_EQ(plan.padded, 0);
  EXPECT_EQ(plan.dropped, 0);
}

TEST(LoadPlanTest, AMinibatchShorterThanASequenceAShardIsRaisedToExactlyThat) {
  const LoadPlan plan = plan_load({.rows = 80, .sequences = 4, .shards = 2, .minibatch_rows = 10});
  EXPECT_EQ(plan.minibatch_sequences, 1);
  EXPECT_EQ(plan.minibatches, 2);
  EXPECT_THAT(plan.notice, HasSubstr("raised to 40 rows"));
}

TEST(LoadPlanTest, AMinibatchLargerThanTheDataIsLoweredToAllOfIt) {
  const LoadPlan plan = plan_load({.rows = 10, .shards = 2, .minibatch_rows = 64});
  EXPECT_EQ(plan.minibatch_shard_rows(), 5);
  EXPECT_EQ(plan.minibatches, 1);
  EXPECT_THAT(plan.notice, HasSubstr("64 rows is more than the 10 rows"));
  EXPECT_THAT(plan.notice, HasSubstr("lowered to 10 rows, 5 for each of 2 shards"));
}

TEST(LoadPlanTest, AMinibatchIsLoweredToWhatEveryShardCanFill) {
  const LoadPlan dropping = plan_load({.rows = 11, .shards = 2, .minibatch_rows = 64});
  EXPECT_THAT(dropping.notice, HasSubstr("more than the 11 rows that were loaded; it is lowered to 10 rows"));
  EXPECT_EQ(dropping.dropped, 1);
  const LoadPlan padding = plan_load({.rows = 11, .shards = 2, .minibatch_rows = 64, .tail = Tail::kPad});
  EXPECT_THAT(padding.notice, HasSubstr("more than the 11 rows that were loaded; it is lowered to 12 rows"));
  EXPECT_EQ(padding.padded, 1);
}

TEST(LoadPlanTest, AMinibatchThatShardsDoNotDivideIsRoundedDownAndSaid) {
  const LoadPlan plan = plan_load({.rows = 100, .shards = 3, .minibatch_rows = 32});
  EXPECT_EQ(plan.minibatch_shard_rows(), 10);
  EXPECT_THAT(plan.notice, HasSubstr("rounded down to 30: 10 rows for each of 3 shards"));
}

TEST(LoadPlanTest, AMinibatchThatSequencesDoNotFillIsRoundedDownAndSaid) {
  const LoadPlan plan = plan_load({.rows = 24, .sequences = 8, .shards = 2, .minibatch_rows = 14});
  EXPECT_EQ(plan.minibatch_sequences, 2);
  EXPECT_THAT(plan.notice, HasSubstr("rounded down to 12: 2 sequences of 3 rows for each of 2 shards"));
}

TEST(LoadPlanTest, WhatCannotBeCutIsRefusedWithItsNumbers) {
  const auto refusal = [](const LoadRequest& request) -> std::string {
    try {
      (void)plan_load(request);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal({.rows = 20, .sequences = 7, .shards = 1, .minibatch_rows = 4}),
              HasSubstr("20 rows but 7 states"));
  EXPECT_THAT(refusal({.rows = 9, .sequences = 3, .shards = 4, .minibatch_rows = 12}),
              HasSubstr("3 sequences of 3 rows for 4 shards"));
  EXPECT_THAT(refusal({.rows = 9, .shards = 4, .minibatch_rows = 2}), HasSubstr("2 rows cannot be cut into 4 shards"));
  EXPECT_THAT(refusal({.rows = 0, .shards = 1, .minibatch_rows = 2}), HasSubstr("no rows"));
}

// Whatever the numbers: no row is counted twice or lost, and no minibatch is empty.
TEST(LoadPlanTest, CountsAddUpForAllSmallRequests) {
  for (std::int64_t rows = 1; rows <= 40; ++rows) {
    for (int shards = 1; shards <= 5; ++shards) {
      for (std::int64_t minibatch = shards; minibatch <= 20; ++minibatch) {
        if (rows < shards) continue;
        for (const Tail tail : {Tail::kDrop, Tail::kPad, Tail::kWrap}) {
          const LoadPlan plan = plan_load({.rows = rows, .shards = shards, .minibatch_rows = minibatch, .tail = tail});
          const std::int64_t filled = plan.minibatches * plan.minibatch_shard_rows() * shards;
          ASSERT_GE(plan.minibatches, 1);
          ASSERT_EQ(plan.used + plan.padded, filled);
          ASSERT_EQ(plan.used + plan.dropped, tail == Tail::kWrap ? filled : rows);
          ASSERT_TRUE(tail == Tail::kDrop || plan.dropped == 0) << plan.dropped;
          std::int64_t held = 0;
          for (int shard = 0; shard < shards; ++shard) held += plan.rows_of(shard);
          ASSERT_EQ(held, rows);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::learner
