// Which rows each shard trains in which minibatch of a sequential pass, beside what RLlib's LocalSyncParallelOptimizer
// trains (A14-A18, A-F5; docs/decisions/0041).
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "tandem/learner/loaded_batch.h"

namespace tandem::learner {
namespace {

using RowNumbers = std::vector<std::int64_t>;

RowNumbers consecutive(std::int64_t first, std::int64_t count) {
  RowNumbers numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

RowNumbers numbers_in(const torch::Tensor& column) {
  const torch::Tensor values = column.contiguous();
  const auto* begin = values.const_data_ptr<std::int64_t>();
  RowNumbers numbers;
  numbers.insert(numbers.end(), begin, begin + values.numel());
  return numbers;
}

// All shards on one replica. Each row and each state is its own number.
LoadedBatch load_numbers(std::int64_t rows, std::int64_t states, int shards, std::int64_t minibatch_rows, Tail tail) {
  LoadedBatch loaded(sync::Placement{.replica = 0, .replicas = 1, .shards = shards, .mine = {0, shards}});
  Batch batch{.columns = {{"x", torch::arange(rows)}}, .states = {}};
  if (states > 0) batch.states = {{"h", torch::arange(states)}};
  loaded.load(batch, minibatch_rows, tail);
  loaded.begin_pass(Order::kSequential, 1, 0);
  return loaded;
}

// The first sequence of a device's slice in RLlib: the batch is cut to a multiple of the minibatch (A14, A15), then
// split among the devices (A16), and minibatch b is slice b of every part (A18).
std::int64_t first_in_rllib(std::int64_t sequences, const LoadPlan& plan, int devices, int device, std::int64_t b) {
  const std::int64_t minibatch = plan.minibatch_sequences * devices;
  const std::int64_t kept = sequences / minibatch * minibatch;
  return kept / devices * device + b * plan.minibatch_sequences;
}

// Shard s has the rows 25 s to 25 s + 24, and the first three have one of 100, 101, 102 behind them.
TEST(LoadedBatchRowsTest, RowsAreSplitFirstAndThenEachShardDropsItsTail) {
  const LoadedBatch loaded = load_numbers(103, 0, 4, 32, Tail::kDrop);
  ASSERT_EQ(loaded.plan().minibatches, 3);
  const std::vector<RowNumbers> firsts = {{0, 8, 16}, {25, 33, 41}, {50, 58, 66}, {75, 83, 91}};
  RowNumbers trained;
  for (int shard = 0; shard < 4; ++shard) {
    for (std::int64_t b = 0; b < 3; ++b) {
      const std::int64_t first = firsts[static_cast<std::size_t>(shard)][static_cast<std::size_t>(b)];
      const RowNumbers seen = numbers_in(loaded.minibatch(shard, b)["x"]);
      EXPECT_EQ(seen, consecutive(first, 8)) << "minibatch " << b << " of shard " << shard;
      trained.insert(trained.end(), seen.begin(), seen.end());
    }
  }
  std::ranges::sort(trained);
  RowNumbers dropped;
  std::ranges::set_difference(consecutive(0, 103), trained, std::back_inserter(dropped));
  EXPECT_EQ(dropped, (RowNumbers{24, 49, 74, 99, 100, 101, 102})) << "in RLlib 96 to 102";
  EXPECT_EQ(std::ssize(dropped), loaded.plan().dropped);
  EXPECT_EQ(first_in_rllib(103, loaded.plan(), 4, 1, 0), 24) << "where shard 1 begins with 25";
}

TEST(LoadedBatchRowsTest, PaddingTakesEachShardsTailAndThenItsFirstRow) {
  const LoadedBatch loaded = load_numbers(103, 0, 4, 32, Tail::kPad);
  ASSERT_EQ(loaded.plan().minibatches, 4);
  EXPECT_EQ(numbers_in(loaded.minibatch(0, 3)["x"]), (RowNumbers{24, 100, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(numbers_in(loaded.minibatch(1, 3)["x"]), (RowNumbers{49, 101, 25, 25, 25, 25, 25, 25}));
  EXPECT_EQ(numbers_in(loaded.minibatch(3, 3)["x"]), (RowNumbers{99, 75, 75, 75, 75, 75, 75, 75}));
  EXPECT_EQ(loaded.minibatch(0, 3).valid_rows, 2);
  EXPECT_EQ(loaded.minibatch(3, 3).valid_rows, 1);
}

struct LoadCase {
  std::int64_t rows = 0, states = 0;
  int shards = 1;
  std::int64_t minibatch_rows = 0;
};

// Also where only sequences beyond a multiple of the shards are over, as in RLlib's own example (A17), the third.
TEST(LoadedBatchRowsTest, WithoutATailOfAnyShardTheRowsAreRllibs) {
  const std::vector<LoadCase> cases = {{96, 0, 4, 32}, {24, 8, 2, 12}, {21, 7, 2, 6}, {99, 0, 4, 32}, {40, 0, 1, 8}};
  for (const auto& [rows, states, shards, minibatch_rows] : cases) {
    const LoadedBatch loaded = load_numbers(rows, states, shards, minibatch_rows, Tail::kDrop);
    const LoadPlan& plan = loaded.plan();
    const std::int64_t sequences = rows / plan.sequence_length;
    EXPECT_EQ(plan.minibatches, sequences / (plan.minibatch_sequences * shards));
    for (int shard = 0; shard < shards; ++shard) {
      for (std::int64_t b = 0; b < plan.minibatches; ++b) {
        const std::int64_t first = first_in_rllib(sequences, plan, shards, shard, b);
        const ShardBatch batch = loaded.minibatch(shard, b);
        EXPECT_EQ(numbers_in(batch["x"]), consecutive(first * plan.sequence_length, plan.minibatch_shard_rows()))
            << "minibatch " << b << " of shard " << shard << " of " << rows << " rows";
        if (states == 0) continue;
        EXPECT_EQ(numbers_in(batch.states.front().second), consecutive(first, plan.minibatch_sequences));
      }
    }
  }
}

}  // namespace
}  // namespace tandem::learner
