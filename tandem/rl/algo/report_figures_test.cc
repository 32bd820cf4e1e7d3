#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {
namespace {

bool has_any(const Record& record, std::string_view prefix) {
  return std::ranges::any_of(record.fields(), [prefix](const auto& field) { return field.first.starts_with(prefix); });
}

TEST(ReportFiguresTest, LossesAndTimesHaveTheirNames) {
  RunReport report;
  report.learning = {{.policy_loss = 1, .value_loss = 2, .entropy = 3, .approx_kl = 4, .clip_fraction = 5}};
  report.learning.explained_variance = 6;
  report.learning.grad_norm = 7;
  report.learning.learning_rate = 8;
  report.learning.load_seconds = 0.5;
  report.sample_seconds = 0.25;
  const Record record = figures_of(report);
  double expected = 0;
  for (const char* name : {"policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "explained_variance",
                           "grad_norm", "learning_rate"})
    EXPECT_EQ(record.number(name), ++expected) << name;
  EXPECT_EQ(record.number("load_ms"), 500);
  EXPECT_EQ(record.number("sample_ms"), 250);
  EXPECT_EQ(record.find("kl_coef"), nullptr) << "the loss has no penalty on the divergence";
  for (const char* prefix : {"rank_", "rows_cut", "learner_", "steps_made", "policy/"})
    EXPECT_FALSE(has_any(record, prefix)) << prefix;
}

TEST(ReportFiguresTest, RanksAreSummarisedByTheirLeastMeanAndMost) {
  RunReport report;
  report.ranks = {{.sample_seconds = 0.003, .learn_seconds = 0.001, .wait_seconds = 0, .env_steps = 8},
                  {.sample_seconds = 0.001, .learn_seconds = 0.001, .wait_seconds = 0.002, .env_steps = 4}};
  report.ranks[1].learning = RankReport::Learning{{.entropy = 0.5}, 10};
  const Record record = figures_of(report);
  EXPECT_DOUBLE_EQ(record.number("rank_sample_ms_min"), 1);
  EXPECT_DOUBLE_EQ(record.number("rank_sample_ms_mean"), 2);
  EXPECT_DOUBLE_EQ(record.number("rank_sample_ms_max"), 3);
  EXPECT_DOUBLE_EQ(record.number("rank_env_steps_per_s_max"), 2000);
  EXPECT_DOUBLE_EQ(record.number("rank_rows_trained_min"), 10) << "a rank without rows has no part in it";
  EXPECT_DOUBLE_EQ(record.number("rank_entropy_mean"), 0.5);
  report.ranks.resize(1);
  EXPECT_FALSE(has_any(figures_of(report), "rank_")) << "of one rank";
}

TEST(ReportFiguresTest, APolicyHasItsOwnFigures) {
  RunReport report;
  LearnReport learning{{.entropy = 3}};
  learning.entropy_coef = 9;
  report.policies = {{.name = "b",
                      .decisions = 12,
                      .learning = learning,
                      .episode_return_mean = 0.5,
                      .episode_length_mean = 2.5,
                      .episodes = 7},
                     {.name = "a", .decisions = 0, .learning = {}}};
  const Record record = figures_of(report);
  EXPECT_EQ(record.number("policy/b/entropy"), 3);
  EXPECT_EQ(record.number("policy/b/entropy_coef"), 9);
  EXPECT_EQ(record.number("policy/b/episode_return_mean"), 0.5);
  EXPECT_EQ(*record.find("policy/b/decisions"), MetricValue(std::int64_t{12}));
  EXPECT_EQ(*record.find("policy/a/episode_return_mean"), MetricValue(nullptr)) << "none has ended";
  EXPECT_EQ(record.find("policy/a/entropy"), nullptr) << "a policy that is not trained";
}

TEST(ReportFiguresTest, GradientsThatMayBeDroppedAreCountedByReplica) {
  RunReport report;
  report.gradients.emplace();
  report.gradients->sizes = {.steps = 4, .gradients = {.least = 2, .sum = 10, .most = 3}, .rows = {}};
  report.gradients->sizes.rows = {.least = 64, .sum = 320, .most = 96};
  report.gradients->replicas.resize(2);
  report.gradients->replicas[1].totals.dropped = 5;
  const Record record = figures_of(report);
  EXPECT_EQ(*record.find("steps_made"), MetricValue(std::int64_t{4}));
  EXPECT_EQ(record.number("step_gradients_mean"), 2.5);
  EXPECT_EQ(record.number("effective_batch_mean"), 80);
  EXPECT_EQ(record.number("effective_batch_max"), 96);
  EXPECT_EQ(record.number("replica/1/dropped"), 5);
}

TEST(ReportFiguresTest, APipelineReportsItsQueueAndItsLag) {
  RunReport report;
  report.pipeline.emplace();
  report.pipeline->samples_trained = 3;
  report.pipeline->learner_queue_size_q90 = 11;
  report.pipeline->workers_idle = 0.5;
  const Record record = figures_of(report);
  EXPECT_EQ(*record.find("samples_trained"), MetricValue(std::int64_t{3}));
  EXPECT_EQ(record.number("learner_queue_size_q90"), 11);
  EXPECT_EQ(record.number("workers_idle"), 0.5);
}

}  // namespace
}  // namespace tandem::rl
