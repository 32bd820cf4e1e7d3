#include "tandem/learner/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules.h>
#include <torch/types.h>

#include <stdexcept>
#include <vector>

#include "tandem/base/error.h"

namespace tandem::learner {
namespace {

using ::testing::HasSubstr;

// y = 3 x0 - x1, in 64 rows.
Columns line() {
  const torch::Tensor x = torch::arange(128, torch::kFloat).reshape({64, 2}).mul(0.37).sin();
  return {{"x", x}, {"y", x.matmul(torch::tensor({3.0F, -1.0F})).unsqueeze(1)}};
}

const auto kBuild = [] { return torch::nn::Linear(2, 1); };
const auto kLoss = [](torch::nn::LinearImpl& net, const ShardBatch& rows) {
  return torch::mse_loss(net.forward(rows["x"]), rows["y"]);
};

FitOptions options_on(const std::string& devices) {
  return {.devices = devices,
          .shards = 4,
          .minibatch_rows = 16,
          .epochs = 60,
          .team = {.run_seed = 3, .optimizer = {model::AdamOptions{.lr = 0.1}}}};
}

TEST(FitTest, LearnsTheSameOnAnyNumberOfReplicas) {
  const Columns rows = line();
  std::vector<EpochReport> epochs;
  const auto alone = fit(options_on("cpu:1"), rows, kBuild, kLoss, [&](const EpochReport& e) { epochs.push_back(e); });
  ASSERT_EQ(epochs.size(), 60u);
  EXPECT_EQ(epochs.front().epoch, 1);
  EXPECT_EQ(epochs.back().epoch, 60);
  EXPECT_GT(epochs.front().loss, 0.5);
  EXPECT_LT(epochs.back().loss, 1e-3);
  EXPECT_GT(epochs.back().rows_per_s, 0);
  EXPECT_NEAR(alone->weight[0][0].item<float>(), 3, 0.05);
  EXPECT_NEAR(alone->weight[0][1].item<float>(), -1, 0.05);
  const auto several = fit(options_on("cpu:4"), rows, kBuild, kLoss);
  EXPECT_TRUE(several->weight.equal(alone->weight)) << several->weight << alone->weight;
  EXPECT_TRUE(several->bias.equal(alone->bias));
}

TEST(FitTest, TakesAHolderOrAPointer) {
  FitOptions options = options_on("cpu:1");
  options.epochs = 1;
  const auto held = fit(options, line(), kBuild, kLoss);
  const auto pointed = fit(
      options, line(), [] { return std::make_shared<torch::nn::LinearImpl>(2, 1); }, kLoss);
  EXPECT_TRUE(held->weight.equal(pointed->weight));
}

TEST(FitTest, TheRunsSeedDecidesTheFirstValuesAndTheOrder) {
  FitOptions options = options_on("cpu:2");
  options.epochs = 1;
  const auto first = fit(options, line(), kBuild, kLoss);
  EXPECT_TRUE(first->weight.equal(fit(options, line(), kBuild, kLoss)->weight));
  options.team.run_seed = 4;
  EXPECT_FALSE(first->weight.equal(fit(options, line(), kBuild, kLoss)->weight));
}

template <typename Error, typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(FitTest, BadInputIsNamedBeforeTheFirstStep) {
  FitOptions options = options_on("cpu:2");
  const auto run = [&](const Columns& rows) { return [&options, rows] { (void)fit(options, rows, kBuild, kLoss); }; };
  EXPECT_THAT(message_of<DataError>(run({})), HasSubstr("no columns"));
  EXPECT_THAT(message_of<DataError>(run({{"x", torch::ones({8, 2})}, {"y", torch::ones({7, 1})}})), HasSubstr("7"));
  options.minibatch_rows = 3;
  EXPECT_THAT(message_of<ConfigError>(run(line())), HasSubstr("3 rows"));
  options.minibatch_rows = 16;
  options.epochs = 0;
  EXPECT_THAT(message_of<ConfigError>(run(line())), HasSubstr("epochs is 0"));
  options.epochs = 1;
  options.shards = 1;
  EXPECT_THAT(message_of<ConfigError>(run(line())), HasSubstr("2 replicas"));
}

TEST(FitTest, WhatTheLossThrowsEndsIt) {
  const auto broken = [](torch::nn::LinearImpl& net, const ShardBatch& rows) {
    if (rows.shard == 3) throw std::runtime_error("the label is 11 of 10");
    return kLoss(net, rows);
  };
  EXPECT_THAT(message_of<std::runtime_error>([&] { (void)fit(options_on("cpu:4"), line(), kBuild, broken); }),
              HasSubstr("11 of 10"));
}

}  // namespace
}  // namespace tandem::learner
