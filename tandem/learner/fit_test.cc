#include "tandem/learner/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tandem/base/error.h"

namespace tandem::learner {
namespace {

using ::testing::AllOf;
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

// Two replicas that exchange after every third step, and at the end of each epoch of four.
TEST(FitTest, LearnsByLocalSteps) {
  FitOptions options = options_on("cpu:2");
  options.team.strategy = sync::LocalStepsOptions{.every = 3};
  const auto net = fit(options, line(), kBuild, kLoss);
  EXPECT_NEAR(net->weight[0][0].item<float>(), 3, 0.05);
  EXPECT_NEAR(net->weight[0][1].item<float>(), -1, 0.05);
  EXPECT_TRUE(net->weight.equal(fit(options, line(), kBuild, kLoss)->weight));
  options.devices = "cpu:4";
  EXPECT_FALSE(net->weight.equal(fit(options, line(), kBuild, kLoss)->weight));
}

// Replicas that have made their steps keep nobody waiting, and are equal at the end.
TEST(FitTest, LearnsWhereStepsAreMadeWithoutAllReplicas) {
  for (const sync::StrategyOptions& strategy :
       {sync::StrategyOptions(sync::SyncReplicasOptions{.replicas_to_aggregate = 3}),
        sync::StrategyOptions(sync::AsynchronousOptions{.wait_for_slower = 1})}) {
    FitOptions options = options_on("cpu:4");
    options.team.strategy = strategy;
    options.team.patience = std::chrono::minutes(1);
    std::vector<double> losses;
    (void)fit(options, line(), kBuild, kLoss, [&](const EpochReport& epoch) { losses.push_back(epoch.loss); });
    EXPECT_LT(losses.back(), losses.front());
  }
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

// Sets variables of the environment while it lives.
class Launched {
 public:
  using Variables = std::vector<std::pair<const char*, const char*>>;
  explicit Launched(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe): one thread
  }
  ~Launched() {
    for (const auto& [name, value] : variables_) unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

 private:
  const Variables variables_;
};

TEST(FitTest, OneOfSeveralProcessesIsRefusedUnlessItSaysWithWhom) {
  FitOptions options = options_on("cpu:1");
  options.epochs = 1;
  const auto run = [&] { (void)fit(options, line(), kBuild, kLoss); };
  {
    const Launched launched(Launched::Variables{
        {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}});
    EXPECT_THAT(message_of<ConfigError>(run),
                AllOf(HasSubstr("rank 1 of 2 (WORLD_SIZE = 2, set by RANK and WORLD_SIZE): each would train a model"),
                      HasSubstr("learner::Ranks(world.group)"), HasSubstr("sync::DataParallel")));
    EXPECT_NE(fit(options, line(), kBuild, kLoss, {}, Ranks()), nullptr) << "alone on purpose";
  }
  {
    const Launched launched(Launched::Variables{{"RANK", "0"}});
    EXPECT_THAT(message_of<ConfigError>(run), AllOf(HasSubstr("cannot tell whether"),
                                                    HasSubstr("WORLD_SIZE is not set"), HasSubstr("learner::Ranks()")));
  }
  const Launched launched(Launched::Variables{{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(message_of<ConfigError>(run), "nothing was thrown");
}

// The last of two epochs over the first `count` rows.
EpochReport second_epoch_of(FitOptions options, std::int64_t count) {
  options.epochs = 2;
  Columns some;
  for (const auto& [name, values] : line()) some.emplace_back(name, values.narrow(0, 0, count));
  const auto loss = [](torch::nn::LinearImpl& net, const ShardBatch& rows) {
    const std::int64_t valid = rows.valid_rows;  // what pads comes last
    return torch::mse_loss(net.forward(rows["x"]).narrow(0, 0, valid), rows["y"].narrow(0, 0, valid));
  };
  EpochReport report;
  (void)fit(options, some, kBuild, loss, [&](const EpochReport& epoch) { report = epoch; });
  return report;
}

TEST(FitTest, AMinibatchLargerThanTheRowsIsLoweredAndSaid) {
  FitOptions options = options_on("cpu:2");
  options.minibatch_rows = 1000;
  const EpochReport report = second_epoch_of(options, 64);
  EXPECT_THAT(report.notice, AllOf(HasSubstr("1000 rows"), HasSubstr("lowered to 64 rows")));
  EXPECT_EQ(report.used, 64);
  EXPECT_EQ(report.dropped, 0);
}

TEST(FitTest, AMinibatchThatTheShardsDoNotDivideIsRoundedDownAndSaid) {
  FitOptions options = options_on("cpu:2");
  options.minibatch_rows = 18;
  EXPECT_THAT(second_epoch_of(options, 64).notice, AllOf(HasSubstr("18 rows"), HasSubstr("rounded down to 16")));
}

// The counts are those of the run, on any number of replicas.
TEST(FitTest, EveryRowOfAnEpochIsAccountedFor) {
  for (const char* devices : {"cpu:1", "cpu:4"}) {
    FitOptions options = options_on(devices);
    const EpochReport dropping = second_epoch_of(options, 61);
    EXPECT_EQ(dropping.epoch, 2);
    EXPECT_EQ(dropping.offered, 61);
    EXPECT_EQ(dropping.used, 48);
    EXPECT_EQ(dropping.dropped, 13);
    EXPECT_EQ(dropping.padded, 0);
    options.tail = Tail::kPad;
    const EpochReport padding = second_epoch_of(options, 61);
    EXPECT_EQ(padding.offered, 61);
    EXPECT_EQ(padding.used, 61);
    EXPECT_EQ(padding.dropped, 0);
    EXPECT_EQ(padding.padded, 3);
  }
}

TEST(FitTest, AnEpochOfWholeMinibatchesHasNothingToSay) {
  const EpochReport report = second_epoch_of(options_on("cpu:2"), 64);
  EXPECT_EQ(report.notice, "");
  EXPECT_EQ(report.offered, 64);
  EXPECT_EQ(report.used, 64);
  EXPECT_EQ(report.dropped + report.padded, 0);
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
