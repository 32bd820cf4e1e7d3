#include "tandem/learner/loaded_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <tuple>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"

namespace tandem::learner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The second of two replicas with two shards each.
const sync::Placement kSecond{.replica = 1, .replicas = 2, .shards = 4, .mine = {2, 4}};

Batch rows(std::int64_t count, std::int64_t states = 0) {
  Batch batch{.columns = {{"x", torch::arange(count)}, {"y", torch::arange(count)}}, .states = {}};
  if (states > 0) batch.states = {{"h", torch::arange(states)}};
  return batch;
}

TEST(LoadedBatchTest, MinibatchesBeforeALoadAreRefused) {
  const LoadedBatch loaded(kSecond);
  EXPECT_THAT(message_of<ConfigError>([&] { (void)loaded.minibatch(2, 0); }), HasSubstr("no data loaded"));
}

TEST(LoadedBatchTest, MinibatchesOutOfRangeAndShardsOfOthersAreRefused) {
  LoadedBatch loaded(kSecond);
  const LoadPlan& plan = loaded.load(rows(40), 20, Tail::kDrop);
  ASSERT_EQ(plan.minibatches, 2);
  loaded.begin_pass(Order::kSequential, 1, 0);
  EXPECT_EQ(loaded.minibatch(3, 1)["x"][0].item<std::int64_t>(), 35);
  for (const std::int64_t wrong : {-1, 2}) {
    EXPECT_THAT(message_of<ConfigError>([&] { (void)loaded.minibatch(2, wrong); }), HasSubstr("of 2")) << wrong;
    EXPECT_THAT(message_of<ConfigError>([&] { (void)loaded.column_of_minibatch("x", 2, wrong); }), HasSubstr("of 2"));
  }
  for (const int wrong : {1, 4}) {
    EXPECT_THAT(message_of<ConfigError>([&] { (void)loaded.minibatch(wrong, 0); }), HasSubstr("of another replica"))
        << wrong;
  }
}

TEST(LoadedBatchTest, AColumnOfAMinibatchIsTheOneThatTheMinibatchHas) {
  LoadedBatch loaded(kSecond);
  loaded.load(rows(44), 16, Tail::kWrap);
  for (const Order order : {Order::kSequential, Order::kShuffled}) {
    loaded.begin_pass(order, 1, 0);
    for (std::int64_t b = 0; b < 3; ++b)
      EXPECT_TRUE(torch::equal(loaded.column_of_minibatch("y", 2, b), loaded.minibatch(2, b)["y"]));
  }
  EXPECT_THAT(message_of<DataError>([&] { (void)loaded.column_of_minibatch("z", 2, 0); }),
              AllOf(HasSubstr("'z'"), HasSubstr("x, y")));
}

TEST(LoadedBatchTest, UnevenShardsAreCutIntoAsManyMinibatchesWithEveryRowOnceInAPass) {
  LoadedBatch loaded(kSecond);
  EXPECT_EQ(loaded.load_uneven(std::vector<Batch>{rows(23), rows(3)}, 5).minibatches, 5);
  for (const Order order : {Order::kSequential, Order::kShuffled}) {
    loaded.begin_pass(order, 1, 0);
    for (const auto& [shard, count, least] : {std::tuple{2, 23, 4}, std::tuple{3, 3, 0}}) {
      std::vector<std::int64_t> seen;
      for (std::int64_t b = 0; b < 5; ++b) {
        const ShardBatch batch = loaded.minibatch(shard, b);
        EXPECT_GE(batch.rows, least);
        EXPECT_LE(batch.rows, least + 1);
        EXPECT_EQ(batch.valid_rows, batch.rows);
        EXPECT_TRUE(torch::equal(loaded.column_of_minibatch("x", shard, b), batch["x"]));
        const ShardRows lying = loaded.rows_of_minibatch(shard, b);
        ASSERT_EQ(lying.rows, batch.rows);
        for (std::int64_t i = 0; i < lying.rows; ++i)
          EXPECT_EQ(column(lying.columns, "x")[lying.row(i)].item<std::int64_t>(), batch["x"][i].item<std::int64_t>());
        for (std::int64_t row = 0; row < batch.rows; ++row) seen.push_back(batch["x"][row].item<std::int64_t>());
      }
      std::ranges::sort(seen);
      EXPECT_EQ(std::ssize(seen), count);
      for (std::int64_t row = 0; row < std::ssize(seen); ++row) EXPECT_EQ(seen[static_cast<std::size_t>(row)], row);
    }
  }
}

// 6 rows in 5 minibatches: one has 2, another one in each shard.
TEST(LoadedBatchTest, WhatUnevenShardsHaveLeftOverGoesToOtherMinibatchesInEach) {
  LoadedBatch loaded(kSecond);
  loaded.load_uneven(std::vector<Batch>{rows(6), rows(6)}, 5);
  std::vector<std::int64_t> of_second, of_third;
  for (std::int64_t b = 0; b < 5; ++b) {
    of_second.push_back(loaded.minibatch(2, b).rows);
    of_third.push_back(loaded.minibatch(3, b).rows);
  }
  EXPECT_EQ(of_second, (std::vector<std::int64_t>{1, 1, 2, 1, 1}));
  EXPECT_EQ(of_third, (std::vector<std::int64_t>{1, 2, 1, 1, 1}));
}

// Three rows a sequence in one shard, two in the other, of which it has none in most minibatches.
TEST(LoadedBatchTest, UnevenShardsOfSequencesAreCutBetweenThemAndBringTheirStates) {
  const auto sequences = [](std::int64_t count, std::int64_t length) {
    Batch batch{.columns = {{"x", torch::arange(count * length)}}, .states = {{"state", torch::arange(count)}}};
    return batch;
  };
  LoadedBatch loaded(kSecond);
  loaded.load_uneven(std::vector<Batch>{sequences(11, 3), sequences(2, 2)}, 5);
  for (const Order order : {Order::kSequential, Order::kShuffled}) {
    loaded.begin_pass(order, 1, 0);
    for (const auto& [shard, count, length] : {std::tuple{2, 11, 3}, std::tuple{3, 2, 2}}) {
      std::set<std::int64_t> seen;
      for (std::int64_t b = 0; b < 5; ++b) {
        const ShardBatch batch = loaded.minibatch(shard, b);
        const at::Tensor& state = column(batch.states, "state");
        ASSERT_EQ(batch.rows, state.size(0) * length);
        EXPECT_TRUE(torch::equal(loaded.column_of_minibatch("x", shard, b), batch["x"]));
        for (std::int64_t k = 0; k < state.size(0); ++k) {
          const auto sequence = state[k].item<std::int64_t>();
          seen.insert(sequence);
          EXPECT_TRUE(torch::equal(batch["x"].narrow(0, k * length, length),
                                   torch::arange(sequence * length, (sequence + 1) * length)));
        }
      }
      EXPECT_EQ(std::ssize(seen), count);
    }
  }
  // A shard without any, beside one that has some.
  loaded.load_uneven(std::vector<Batch>{sequences(0, 0), sequences(4, 2)}, 2);
  loaded.begin_pass(Order::kShuffled, 1, 0);
  EXPECT_EQ(loaded.minibatch(2, 1).rows, 0);
  EXPECT_EQ(loaded.minibatch(3, 1).rows, 4);
}

TEST(LoadedBatchTest, RowsWhereTheyLieAreThoseOfTheMinibatch) {
  for (const Tail tail : {Tail::kDrop, Tail::kWrap, Tail::kPad}) {
    LoadedBatch loaded(kSecond);
    const LoadPlan& plan = loaded.load(rows(42), 16, tail);
    for (const Order order : {Order::kSequential, Order::kShuffled}) {
      loaded.begin_pass(order, 1, 0);
      for (int shard = 2; shard < 4; ++shard) {
        for (std::int64_t b = 0; b < plan.minibatches; ++b) {
          const ShardBatch gathered = loaded.minibatch(shard, b);
          const ShardRows lying = loaded.rows_of_minibatch(shard, b);
          EXPECT_EQ(lying.shard, shard);
          EXPECT_EQ(lying.minibatch, b);
          EXPECT_EQ(lying.valid_rows, gathered.valid_rows);
          ASSERT_EQ(lying.rows, gathered.rows);
          for (std::int64_t i = 0; i < lying.rows; ++i) {
            EXPECT_EQ(column(lying.columns, "x")[lying.row(i)].item<std::int64_t>(),
                      gathered["x"][i].item<std::int64_t>());
          }
        }
      }
    }
  }
}

// Shards that happen to be even are cut as even ones are, in the same order.
TEST(LoadedBatchTest, UnevenShardsOfEqualRowsAreAsEvenOnes) {
  LoadedBatch even(kSecond), uneven(kSecond);
  even.load_shards(std::vector<Batch>{rows(20), rows(20)}, 16, Tail::kDrop);
  uneven.load_uneven(std::vector<Batch>{rows(20), rows(20)}, 5);
  for (LoadedBatch* loaded : {&even, &uneven}) loaded->begin_pass(Order::kShuffled, 7, 3);
  for (const int shard : {2, 3}) {
    for (std::int64_t b = 0; b < 5; ++b)
      EXPECT_TRUE(torch::equal(even.minibatch(shard, b)["x"], uneven.minibatch(shard, b)["x"]));
  }
}

TEST(LoadedBatchTest, ColumnsOfDifferentRowsAreNamed) {
  LoadedBatch loaded(kSecond);
  const auto refusal = [&](const Batch& batch) {
    return message_of<DataError>([&] { loaded.load(batch, 8, Tail::kDrop); });
  };
  Batch uneven = rows(40);
  uneven.columns[1].second = torch::arange(39);
  EXPECT_THAT(refusal(uneven), HasSubstr("column 'y' has 39 rows, but 'x' has 40"));
  Batch uneven_states = rows(40, 20);
  uneven_states.states.emplace_back("c", torch::arange(19));
  EXPECT_THAT(refusal(uneven_states), HasSubstr("column 'c' has 19 rows, but 'h' has 20"));
  EXPECT_THAT(refusal({.columns = {{"x", torch::ones({})}}, .states = {}}), HasSubstr("'x' has no rows"));
  EXPECT_THAT(refusal({}), HasSubstr("no columns"));
}

TEST(LoadedBatchTest, ShardsThatAreCutAlreadyStayAsTheyAre) {
  LoadedBatch loaded(kSecond);
  Batch first = rows(6, 3), second = rows(6, 3);
  second.columns[0].second += 100;
  second.states[0].second += 100;
  const LoadPlan& plan = loaded.load_shards(std::vector<Batch>{first, second}, 8, Tail::kDrop);
  EXPECT_EQ(plan.offered, 24);
  EXPECT_EQ(plan.sequence_length, 2);
  EXPECT_EQ(plan.minibatches, 3);
  loaded.begin_pass(Order::kSequential, 1, 0);
  EXPECT_TRUE(torch::equal(loaded.minibatch(3, 2)["x"], torch::tensor({104, 105})));
  EXPECT_TRUE(torch::equal(loaded.minibatch(3, 2).states[0].second, torch::tensor({102})));
}

TEST(LoadedBatchTest, ShardsOfDifferentSizesAreRefused) {
  LoadedBatch loaded(kSecond);
  const auto load = [&](const std::vector<Batch>& shards) { loaded.load_shards(shards, 8, Tail::kDrop); };
  EXPECT_THAT(message_of<DataError>([&] {
                load({rows(6), rows(7)});
              }),
              HasSubstr("a shard has 7 rows, another 6; all must have equally many"));
  EXPECT_THAT(message_of<DataError>([&] {
                load({rows(6, 3), rows(6, 2)});
              }),
              HasSubstr("a shard has 2 states, another 3"));
  EXPECT_THAT(message_of<ConfigError>([&] { load({rows(6)}); }), HasSubstr("1 batches for 2 shards"));
}

}  // namespace
}  // namespace tandem::learner
