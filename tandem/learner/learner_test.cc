#include "tandem/learner/learner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tandem/base/error.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/dropout.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::learner {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kRows = 64, kFeatures = 5;

// Linear, batch norm, dropout: parameters, buffers and randomness in one model.
struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", torch::nn::Linear(kFeatures, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    dropout = register_module("dropout", nn::Dropout(0.25));
    last = register_module("last", torch::nn::Linear(8, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return last(dropout->forward(torch::tanh(norm(first(x))))).squeeze(1);
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  nn::Dropout dropout{nullptr};
};

Batch regression_batch(int rows = kRows) {
  torch::manual_seed(3);
  const torch::Tensor x = torch::randn({rows, kFeatures});
  return {.columns = {{"x", x}, {"y", x.sum(1).sin()}}, .states = {}};
}

ReplicaTeam::BuildModule build_net() {
  return [](const sync::Placement&) {
    static std::mutex one_at_a_time;  // the initial values come from the default generator
    const std::lock_guard lock(one_at_a_time);
    torch::manual_seed(11);
    return std::make_shared<Net>();
  };
}

TeamOptions adam() {
  return {.run_seed = 5,
          .rng = model::RngOrder::kShards,
          .optimizer = {model::AdamOptions{.lr = 0.01}},
          .flat = {},
          .strategy = sync::ReplicatedOptions{.mean = {.max_grad_norm = 0.5, .divisor = {}}},
          .patience = 20s};
}

ShardLoss squared_error(Net& net, const ShardBatch& batch) {
  torch::Tensor error = (net.forward(batch["x"]) - batch["y"]).square();
  if (batch.valid.defined()) error = error * batch.valid;
  return {.loss = error.sum() / batch.valid_rows,
          .weight = static_cast<double>(batch.valid_rows),
          .outputs = {{"error", error}}};
}

std::vector<std::string> state_after_training(int shards, int replicas, Tail tail) {
  ReplicaTeam team(sync::place_on_cpu(shards, replicas), adam(), build_net());
  const Batch batch = regression_batch();
  std::vector<std::string> hashes(static_cast<std::size_t>(replicas));
  team.run([&](Member& member) {
    member.learner.batch().load(batch, 24, tail);
    auto& net = dynamic_cast<Net&>(member.replica.module());
    for (int pass = 0; pass < 3; ++pass) {
      member.learner.begin_pass(Order::kShuffled);
      for (std::int64_t b = 0; b < member.learner.batch().plan().minibatches; ++b) {
        member.learner.step(
            b, [&](const ShardBatch& rows) { return squared_error(net, rows); }, 1.0, sync::kNoLimits);
      }
    }
    hashes[static_cast<std::size_t>(member.replica.placement().replica)] =
        model::state_sha256(member.replica.named_state());
  });
  return hashes;
}

TEST(LearnerTest, EveryTopologyGivesTheSameBits) {
  std::set<std::string> different;
  for (const Tail tail : {Tail::kDrop, Tail::kPad, Tail::kWrap}) {
    const std::string expected = state_after_training(4, 1, tail).front();
    different.insert(expected);
    for (const int replicas : {1, 2, 3, 4}) {
      for (const std::string& hash : state_after_training(4, replicas, tail))
        EXPECT_EQ(hash, expected) << replicas << " replicas";
    }
  }
  different.insert(state_after_training(2, 1, Tail::kDrop).front());
  EXPECT_EQ(different.size(), 4U) << "what becomes of the tail and the number of shards are part of the computation";
}

TEST(LearnerTest, PassesGatherEveryShardsRowsOnceAndInAnOrderOfTheirOwn) {
  ReplicaTeam team(sync::place_on_cpu(2, 1), adam(), build_net());
  const Batch batch{.columns = {{"row", torch::arange(40)}}, .states = {}};
  team.run([&](Member& member) {
    LoadedBatch& loaded = member.learner.batch();
    loaded.load(batch, 10, Tail::kDrop);
    std::vector<torch::Tensor> orders;
    for (int pass = 0; pass < 2; ++pass) {
      member.learner.begin_pass(Order::kShuffled);
      std::vector<torch::Tensor> rows;
      for (std::int64_t b = 0; b < 4; ++b) rows.push_back(loaded.minibatch(1, b)["row"]);
      orders.push_back(torch::cat(rows));
      EXPECT_TRUE(torch::equal(std::get<0>(orders.back().sort()), torch::arange(20, 40)));
    }
    EXPECT_FALSE(torch::equal(orders[0], orders[1]));
  });
}

TEST(LearnerTest, ASequentialPassIsAViewOfTheLoadedRows) {
  LoadedBatch loaded(sync::Placement{.replica = 0, .replicas = 1, .shards = 2, .mine = {0, 2}});
  const torch::Tensor x = torch::arange(20);
  loaded.load({.columns = {{"x", x}}, .states = {}}, 10, Tail::kDrop);
  loaded.begin_pass(Order::kSequential, 1, 0);
  const ShardBatch batch = loaded.minibatch(1, 1);
  EXPECT_EQ(batch["x"].data_ptr(), x.narrow(0, 15, 5).data_ptr());
}

TEST(LearnerTest, SequencesStayWholeAndKeepTheirStates) {
  LoadedBatch loaded(sync::Placement{.replica = 0, .replicas = 1, .shards = 2, .mine = {0, 2}});
  const LoadPlan& plan =
      loaded.load({.columns = {{"x", torch::arange(21)}}, .states = {{"h", torch::arange(7)}}}, 6, Tail::kDrop);
  EXPECT_EQ(plan.rows_of(0), 12);
  EXPECT_EQ(plan.rows_of(1), 9);
  loaded.begin_pass(Order::kShuffled, 1, 0);
  for (int shard = 0; shard < 2; ++shard) {
    for (std::int64_t b = 0; b < 3; ++b) {
      const ShardBatch batch = loaded.minibatch(shard, b);
      const std::int64_t sequence = batch.states.front().second.item<std::int64_t>();
      EXPECT_TRUE(torch::equal(batch["x"], torch::arange(sequence * 3, sequence * 3 + 3)));
    }
  }
}

TEST(LearnerTest, PaddingIsMaskedAndCounted) {
  LoadedBatch loaded(sync::Placement{.replica = 0, .replicas = 1, .shards = 1, .mine = {0, 1}});
  loaded.load({.columns = {{"x", torch::arange(10)}}, .states = {}}, 4, Tail::kPad);
  loaded.begin_pass(Order::kShuffled, 1, 0);
  const ShardBatch last = loaded.minibatch(0, 2);
  EXPECT_EQ(last.valid_rows, 2);
  EXPECT_TRUE(torch::equal(last.valid, torch::tensor({true, true, false, false})));
  EXPECT_FALSE(loaded.minibatch(0, 1).valid.defined());
}

std::vector<std::int64_t> rows_of_a_pass(const LoadedBatch& loaded, int shards) {
  std::vector<std::int64_t> rows;
  for (int shard = 0; shard < shards; ++shard) {
    for (std::int64_t b = 0; b < loaded.plan().minibatches; ++b) {
      const ShardBatch batch = loaded.minibatch(shard, b);
      const torch::Tensor x = batch["x"].narrow(0, 0, batch.valid_rows);
      rows.insert(rows.end(), x.data_ptr<std::int64_t>(), x.data_ptr<std::int64_t>() + x.numel());
    }
  }
  std::ranges::sort(rows);
  return rows;
}

// 11 rows on 4 shards: three shards hold one row more, and none is left out for ever.
TEST(LearnerTest, RowsBeyondAMultipleOfTheShardsTakeTheirTurn) {
  LoadedBatch loaded(sync::Placement{.replica = 0, .replicas = 1, .shards = 4, .mine = {0, 4}});
  loaded.load({.columns = {{"x", torch::arange(11)}}, .states = {}}, 8, Tail::kDrop);
  std::set<std::int64_t> seen;
  for (std::uint64_t pass = 0; pass < 20; ++pass) {
    loaded.begin_pass(Order::kShuffled, 1, pass);
    const std::vector<std::int64_t> rows = rows_of_a_pass(loaded, 4);
    EXPECT_EQ(rows.size(), 8U);
    EXPECT_EQ(std::ranges::adjacent_find(rows), rows.end()) << "a row twice";
    seen.insert(rows.begin(), rows.end());
  }
  EXPECT_EQ(seen.size(), 11U);
}

TEST(LearnerTest, PaddedPassesTakeEveryRowOnce) {
  std::vector<std::int64_t> all(11);
  std::iota(all.begin(), all.end(), 0);
  for (const std::int64_t minibatch : {4, 8, 12}) {
    LoadedBatch loaded(sync::Placement{.replica = 0, .replicas = 1, .shards = 4, .mine = {0, 4}});
    loaded.load({.columns = {{"x", torch::arange(11)}}, .states = {}}, minibatch, Tail::kPad);
    for (const Order order : {Order::kSequential, Order::kShuffled}) {
      loaded.begin_pass(order, 1, 0);
      EXPECT_EQ(rows_of_a_pass(loaded, 4), all) << "minibatches of " << minibatch;
    }
  }
}

// The device here has shapes and no values; tests/gpu compares bits.
TEST(LearnerTest, ABatchOnTheHostIsCopiedToTheDeviceByTheMinibatch) {
  const sync::Placement placement{
      .replica = 0, .replicas = 1, .shards = 1, .mine = {0, 1}, .device = c10::Device(c10::kMeta)};
  const torch::Tensor x = torch::arange(20);
  LoadedBatch loaded(placement, Residence::kHost);
  loaded.load({.columns = {{"x", x}}, .states = {}}, 5, Tail::kDrop);
  for (const Order order : {Order::kSequential, Order::kShuffled}) {
    loaded.begin_pass(order, 1, 0);
    EXPECT_TRUE(loaded.minibatch(0, 3)["x"].is_meta());
    EXPECT_EQ(loaded.minibatch(0, 3)["x"].size(0), 5);
    EXPECT_TRUE(loaded.column_of_minibatch("x", 0, 1).is_meta());
  }
  EXPECT_EQ(x.use_count(), 2U) << "the batch was copied";
}

TEST(LearnerTest, RandomNumbersOfTheDefaultGeneratorAreRefusedWithSeveralShards) {
  ReplicaTeam team(sync::place_on_cpu(2, 1), adam(), build_net());
  const Batch batch = regression_batch();
  const auto train = [&](Member& member) {
    member.learner.batch().load(batch, 32, Tail::kDrop);
    member.learner.begin_pass(Order::kSequential);
    member.learner.step(
        0,
        [&](const ShardBatch& rows) {
          const torch::Tensor noise = torch::randn({rows.rows});
          return ShardLoss{.loss = (dynamic_cast<Net&>(member.replica.module()).forward(rows["x"]) * noise).mean(),
                           .weight = 1,
                           .outputs = {}};
        },
        1.0, sync::kNoLimits);
  };
  try {
    team.run(train);
    FAIL() << "accepted";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rng: unordered"));
  }
}

TEST(LearnerTest, OutputsOfEveryShardComeBack) {
  ReplicaTeam team(sync::place_on_cpu(3, 2), adam(), build_net());
  const Batch batch = regression_batch(60);
  team.run([&](Member& member) {
    member.learner.batch().load(batch, 30, Tail::kDrop);
    member.learner.begin_pass(Order::kSequential);
    const LearnerReport report = member.learner.step(
        0, [&](const ShardBatch& rows) { return squared_error(dynamic_cast<Net&>(member.replica.module()), rows); },
        1.0, sync::kNoLimits);
    EXPECT_EQ(static_cast<int>(report.shard_outputs.size()), member.replica.placement().mine.size());
    for (const Columns& outputs : report.shard_outputs) EXPECT_EQ(column(outputs, "error").size(0), 10);
    EXPECT_EQ(report.step.weight, 30);
    EXPECT_GT(report.step.grad_norm, 0);
  });
}

}  // namespace
}  // namespace tandem::learner
