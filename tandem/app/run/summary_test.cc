#include "tandem/app/run/summary.h"

#include <gtest/gtest.h>

#include "tandem/base/json_reader.h"

namespace tandem::app {
namespace {

TEST(SummaryTest, HoldsTheLastValuesAndWhatTheRunCameTo) {
  Summary summary;
  summary.env = "CartPole-v1";
  summary.last.episode_return_mean = 480.5;
  summary.solved_at_env_steps = 81'920;
  summary.state_sha256 = std::string(64, 'a');
  summary.replicas = {{.rows = 100, .thread_cpu_s = 0.5},
                      {.rows = 200,
                       .thread_cpu_s = 0.25,
                       .gradients = 7,
                       .dropped = 2,
                       .applied = 4,
                       .staleness_mean = 1.5,
                       .waited_s = 0.75,
                       .staleness_max = 4}};
  const JsonValue read = read_json(to_json(summary));
  EXPECT_EQ(read.at("episode_return_mean").as_double(), 480.5);
  EXPECT_EQ(read.at("solved_at_env_steps").as_int64(), 81'920);
  EXPECT_EQ(read.at("state_sha256").as_string(), std::string(64, 'a'));
  EXPECT_EQ(read.at("resumed").as_string(), "no");
  EXPECT_EQ(read.at("replicas").as_array().at(1).at("rows").as_int64(), 200);
  const JsonValue& second = read.at("replicas").as_array().at(1);
  EXPECT_EQ(second.at("thread_cpu_s").as_double(), 0.25);
  EXPECT_EQ(second.at("gradients").as_int64(), 7);
  EXPECT_EQ(second.at("dropped").as_int64(), 2);
  EXPECT_EQ(second.at("accepted").as_int64(), 5);
  EXPECT_EQ(second.at("applied").as_int64(), 4);
  EXPECT_EQ(second.at("waited_s").as_double(), 0.75);
  EXPECT_EQ(second.at("staleness_mean").as_double(), 1.5);
  EXPECT_EQ(second.at("staleness_max").as_int64(), 4);
  EXPECT_EQ(read.find("policy_lag_histogram"), nullptr) << "of runs that sample and learn at the same time";
}

TEST(SummaryTest, TellsHowOldThePoliciesWere) {
  Summary summary;
  summary.policy_lag_histogram = {3, 0, 7};
  const JsonValue read = read_json(to_json(summary));
  const auto& lags = read.at("policy_lag_histogram").as_array();
  ASSERT_EQ(lags.size(), 3u);
  EXPECT_EQ(lags.at(2).as_int64(), 7);
}

TEST(SummaryTest, TellsTheEffectiveBatchesOfItsSteps) {
  Summary summary;
  EXPECT_EQ(read_json(to_json(summary)).find("steps"), nullptr) << "of runs that may drop gradients";
  summary.steps = StepSummary{.made = 5, .gradients = {.min = 2, .mean = 2.5, .max = 3}};
  summary.steps->effective_batch = {.min = 64, .mean = 80, .max = 96};
  const JsonValue steps = read_json(to_json(summary)).at("steps");
  EXPECT_EQ(steps.at("made").as_int64(), 5);
  EXPECT_EQ(steps.at("gradients").at("mean").as_double(), 2.5);
  EXPECT_EQ(steps.at("effective_batch").at("min").as_double(), 64);
  EXPECT_EQ(steps.at("effective_batch").at("max").as_double(), 96);
}

TEST(SummaryTest, AnUnsolvedTaskIsNull) {
  EXPECT_TRUE(read_json(to_json(Summary{})).at("solved_at_env_steps").is_null());
}

TEST(SummaryTest, HoldsEveryFigureOfTheLastUpdate) {
  Summary summary;
  summary.last.updates = 3;
  summary.last.figures.add("learning_rate", 2.5e-4);
  const JsonValue read = read_json(to_json(summary));
  EXPECT_EQ(read.at("updates").as_int64(), 3);
  EXPECT_EQ(read.at("learning_rate").as_double(), 2.5e-4);
  EXPECT_TRUE(read.at("episode_return_mean").is_null()) << "no episode has ended";
}

}  // namespace
}  // namespace tandem::app
