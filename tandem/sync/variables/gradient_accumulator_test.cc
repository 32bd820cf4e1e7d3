#include "tandem/sync/variables/gradient_accumulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/sync/mean/sparse_sum.h"

namespace tandem::sync {
namespace {

// Two dense parameters and a table of four words.
struct Words : torch::nn::Module {
  Words() {
    first = register_parameter("first", torch::zeros({3}));
    second = register_parameter("second", torch::zeros({2}));
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)));
  }
  torch::Tensor first, second;
  torch::nn::Embedding table{nullptr};
};

struct Row {
  std::int64_t index = 0;
  double value = 0;
};

// A gradient of given values; an absent parameter has none.
struct Given {
  GradientId id;
  std::optional<double> first{}, second{};
  std::vector<Row> rows{};
  double weight = 1;
  double factor = 1;
};

class AccumulatorTest : public ::testing::Test {
 protected:
  AccumulatorTest() : parameters_(std::make_shared<Words>(), {}) {
    for (std::size_t b = 0; b < parameters_.buffers().size(); ++b)
      (parameters_.buffers()[b].sparse ? sparse_ : dense_) = b;
  }

  void add(GradientAccumulator& accumulator, const Given& given) {
    // The same memory for all, as a replica's is: what was added is given back before the next is written.
    for (std::size_t slot = 0; slot < 2; ++slot) {
      const std::optional<double> value = slot == 0 ? given.first : given.second;
      memory_.views[dense_][slot].fill_(value.value_or(0));
      memory_.presence[dense_][static_cast<std::int64_t>(slot)].fill_(value ? 1 : 0);
    }
    std::vector<std::int64_t> indices;
    std::vector<double> values;
    for (const Row& row : given.rows) {
      indices.push_back(row.index);
      values.push_back(row.value);
    }
    memory_.sparse[sparse_][0].reset();
    if (!indices.empty()) {
      memory_.sparse[sparse_][0] =
          at::_sparse_coo_tensor_unsafe(torch::tensor(indices).unsqueeze(0),
                                        torch::tensor(values).to(torch::kFloat).unsqueeze(1).repeat({1, 2}), {4, 2});
    }
    accumulator.add({.id = given.id,
                     .factor = given.factor,
                     .tally = {.weight = given.weight, .shards = 1, .loss = given.weight * 3, .rate = 1},
                     .gradients = memory_});
    accumulator.give_back(given.id.worker);
  }

  // The mean of each parameter: first, second, and the four words.
  std::vector<double> means(const GradientAccumulator::Taken& taken) const {
    const double scale = 1 / taken.tally.weight;
    std::vector<double> all;
    for (const torch::Tensor& view : taken.gradients.views[dense_]) all.push_back(view[0].item<double>() * scale);
    const torch::Tensor& table = taken.gradients.sparse[sparse_][0];
    const torch::Tensor rows = table.defined() ? table.to_dense() : torch::zeros({4, 2});
    for (std::int64_t row = 0; row < 4; ++row) all.push_back(rows[row][1].item<double>() * scale);
    return all;
  }

  std::unique_ptr<GradientAccumulator> make(Acceptance acceptance, SparseMean mean = SparseMean::kByCount) {
    return make_accumulator(acceptance, mean, parameters_);
  }

  model::FlatParameters parameters_;
  std::size_t dense_ = 0, sparse_ = 0;
  model::FlatParameters::Gradients memory_ =
      parameters_.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
};

constexpr Acceptance kBoth[] = {Acceptance::kWhole, Acceptance::kPerVariable};

TEST_F(AccumulatorTest, NoGradientsAreNotTaken) {
  const auto accumulator = make(Acceptance::kWhole);
  add(*accumulator, {.id = {0, 1}, .first = 8});
  EXPECT_EQ(means(accumulator->take())[0], 8);
  EXPECT_THROW((void)accumulator->take(), InvariantError) << "there is nothing";
}

// 2 rows with gradient sum 8, 6 rows with sum 12: (8 + 12) / 8.
TEST_F(AccumulatorTest, WholeGradientsWeighTheirRows) {
  const auto accumulator = make(Acceptance::kWhole);
  for (int step = 0; step < 2; ++step) {
    add(*accumulator, {.id = {1, step}, .first = 8, .second = 16, .weight = 2});
    add(*accumulator, {.id = {0, step}, .first = 12, .weight = 6});
    const auto taken = accumulator->take();
    EXPECT_THAT(means(taken), ::testing::ElementsAre(2.5, 2, 0, 0, 0, 0)) << "who has no gradient counts as zero";
    EXPECT_EQ(taken.tally.weight, 8);
    EXPECT_EQ(taken.tally.loss, 24);
    EXPECT_EQ(taken.tally.shards, 2);
    EXPECT_THAT(std::vector<float>({taken.gradients.presence[dense_][0].item<float>(),
                                    taken.gradients.presence[dense_][1].item<float>()}),
                ::testing::ElementsAre(2, 1));
  }
}

// The means are 4 and 2, whatever rows they are of; `second` is in one of them only.
TEST_F(AccumulatorTest, PerVariableEachMeanIsOverTheGradientsThatHaveIt) {
  const auto accumulator = make(Acceptance::kPerVariable);
  for (int step = 0; step < 2; ++step) {
    add(*accumulator, {.id = {1, step}, .first = 8, .second = 16, .weight = 2});
    add(*accumulator, {.id = {0, step}, .first = 12, .weight = 6});
    const auto taken = accumulator->take();
    EXPECT_THAT(means(taken), ::testing::ElementsAre(3, 8, 0, 0, 0, 0));
    EXPECT_EQ(taken.tally.weight, 2);
    EXPECT_EQ(taken.tally.loss, 6);
  }
}

// Word 1: 6 and 2; word 3: 4 by the first alone.
TEST_F(AccumulatorTest, RowsOfSparseGradientsAreDividedByCountOrByIndex) {
  for (const Acceptance acceptance : kBoth) {
    for (const SparseMean mean : {SparseMean::kByCount, SparseMean::kByIndex}) {
      const auto accumulator = make(acceptance, mean);
      for (int step = 0; step < 2; ++step) {
        add(*accumulator, {.id = {0, step}, .first = 1, .rows = {{1, 6}, {3, 4}}});
        add(*accumulator, {.id = {1, step}, .first = 1, .rows = {{1, 2}}});
        EXPECT_THAT(means(accumulator->take()),
                    ::testing::ElementsAre(1, 0, 0, 4, 0, mean == SparseMean::kByCount ? 2 : 4));
      }
    }
  }
}

// Rows are weighted as the gradients are: 3 of 4 rows have word 0.
TEST_F(AccumulatorTest, ByIndexWholeGradientsWeighTheirRowsToo) {
  const auto accumulator = make(Acceptance::kWhole, SparseMean::kByIndex);
  add(*accumulator, {.id = {0, 0}, .rows = {{0, 6}}, .weight = 3});
  add(*accumulator, {.id = {1, 0}, .rows = {{2, 5}}, .weight = 1});
  EXPECT_THAT(means(accumulator->take()), ::testing::ElementsAre(0, 0, 2, 0, 5, 0));
}

TEST_F(AccumulatorTest, TwoShardsOfAReplicaMayHaveTheSameRow) {
  for (const SparseMean mean : {SparseMean::kByCount, SparseMean::kByIndex}) {
    const auto accumulator = make(Acceptance::kWhole, mean);
    add(*accumulator, {.id = {0, 0}, .rows = {{1, 6}, {2, 1}, {0, 3}, {1, 2}}, .weight = 2});
    add(*accumulator, {.id = {1, 0}, .weight = 2});
    const bool by_index = mean == SparseMean::kByIndex;
    EXPECT_THAT(means(accumulator->take()),
                ::testing::ElementsAre(0, 0, by_index ? 1.5 : 0.75, by_index ? 4 : 2, by_index ? 0.5 : 0.25, 0));
  }
}

TEST_F(AccumulatorTest, AFactorClipsBeforeTheMean) {
  for (const Acceptance acceptance : kBoth) {
    const auto accumulator = make(acceptance);
    add(*accumulator, {.id = {0, 0}, .first = 8, .rows = {{0, 8}}, .factor = 0.5});
    add(*accumulator, {.id = {1, 0}, .first = 2, .rows = {{0, 2}}});
    EXPECT_THAT(means(accumulator->take()), ::testing::ElementsAre(3, 0, 3, 0, 0, 0));
  }
}

TEST_F(AccumulatorTest, WhatIsLentIsAddedWhereItLiesAndWhatIsGivenBackIsCopied) {
  const auto accumulator = make(Acceptance::kWhole);
  const auto lend = [&](std::int64_t step) {
    memory_.views[dense_][0].fill_(5);
    accumulator->add({.id = {1, step}, .tally = {.weight = 1, .shards = 1}, .gradients = memory_});
  };
  lend(0);
  EXPECT_EQ(accumulator->take().gradients.flat[dense_].const_data_ptr(), memory_.flat[dense_].const_data_ptr());
  lend(1);
  accumulator->give_back(0);
  memory_.views[dense_][0].fill_(6);
  EXPECT_EQ(means(accumulator->take())[0], 6) << "given back by another";
  lend(2);
  accumulator->give_back(1);
  memory_.views[dense_][0].fill_(6);
  EXPECT_EQ(means(accumulator->take())[0], 5);
}

// 1e8 + 1 is 1e8 in float: along the tree of four the ones meet first, in a running sum they are lost one by one.
TEST_F(AccumulatorTest, WholeGradientsAreSummedAlongTheTreeWhoeverCameFirst) {
  const double of_worker[] = {1, 1, 1e8, -1e8};
  std::vector<int> order{0, 1, 2, 3};
  do {
    const auto accumulator = make(Acceptance::kWhole);
    for (const int worker : order) add(*accumulator, {.id = {worker, 7 - worker}, .first = of_worker[worker]});
    EXPECT_EQ(means(accumulator->take())[0], 0.5);
  } while (std::next_permutation(order.begin(), order.end()));
  const auto running = make(Acceptance::kPerVariable);
  for (const int worker : {0, 2, 1, 3}) add(*running, {.id = {worker, 0}, .first = of_worker[worker]});
  EXPECT_EQ(means(running->take())[0], 0);
}

TEST(SparseRowsTest, ShardsAreJoinedInTheirOrder) {
  const auto row = [](std::int64_t index, float value) {
    return torch::sparse_coo_tensor(torch::tensor({{index}}), torch::full({1, 2}, value), {4, 2});
  };
  const torch::Tensor joined = join_shards({row(2, 1), {}, row(1, 3), row(2, 5)}, {4, 2});
  EXPECT_TRUE(torch::equal(joined._indices(), torch::tensor({{2, 1, 2}})));
  const torch::Tensor sum = sum_rows({{.gradient = joined, .weight = 1}}, {4, 2}, SparseMean::kByCount, 1);
  EXPECT_TRUE(torch::equal(sum.to_dense().select(1, 0), torch::tensor({0.0F, 3.0F, 6.0F, 0.0F})));
  EXPECT_FALSE(join_shards({{}, {}}, {4, 2}).defined());
  EXPECT_FALSE(sum_rows({{}, {}}, {4, 2}, SparseMean::kByIndex, 1).defined());
}

}  // namespace
}  // namespace tandem::sync
