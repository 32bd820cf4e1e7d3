#include "tandem/app/run/update_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/metrics/jsonl_sink.h"

namespace tandem::app {
namespace {

TEST(UpdateMetricsTest, AreReadFromTheLastLineAsTheyWereWritten) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  EXPECT_EQ(read_last(file, 0), std::nullopt) << "there is no file";
  const UpdateMetrics first{.updates = 1, .env_steps = 256};
  UpdateMetrics second{.updates = 2, .env_steps = 512, .wall_s = 1.5, .env_steps_per_s = 300};
  second.episode_return_mean = 21.25;
  second.episode_length_mean = 22;
  second.episodes = 7;
  second.policy_loss = -0.1;
  second.value_loss = 0.2;
  second.entropy = 0.3;
  second.approx_kl = 0.4;
  second.clip_fraction = 0.5;
  second.explained_variance = NAN;
  second.grad_norm = 0.6;
  second.learning_rate = 0.7;
  second.sample_ms = 1;
  second.load_ms = 2;
  second.learn_ms = 3;
  second.sync_ms = 4;
  JsonlSink sink(file);
  sink.write(to_record(first));
  EXPECT_EQ(read_last(file, 1)->episode_return_mean, std::nullopt);
  sink.write(to_record(second));
  EXPECT_EQ(read_last(file, 1), std::nullopt) << "the last line is of update 2";
  UpdateMetrics read = read_last(file, 2).value();
  EXPECT_TRUE(std::isnan(read.explained_variance));
  read.explained_variance = second.explained_variance = 0;
  EXPECT_EQ(read, second);
}

TEST(UpdateMetricsTest, ThoseOfRolloutsThatMayEndEarlyAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  UpdateMetrics metrics{.updates = 1};
  metrics.rollouts = RolloutMetrics{.rows_cut = 120, .saved_ms = 1.5};
  JsonlSink(file).write(to_record(metrics));
  EXPECT_EQ(read_last(file, 1), metrics);
}

TEST(UpdateMetricsTest, ThoseOfRanksAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  UpdateMetrics metrics{.updates = 1};
  metrics.kl_coef = 0.25;
  metrics.ranks = RankMetrics{.sample_ms = over_ranks({3, 1, 8}),
                              .learn_ms = over_ranks({4}),
                              .wait_ms = over_ranks({5, 6}),
                              .env_steps_per_s = over_ranks({7, 9}),
                              .learning = RankLearningMetrics{.rows_trained = over_ranks({10, 20}),
                                                              .policy_loss = over_ranks({11}),
                                                              .value_loss = over_ranks({12, 14}),
                                                              .entropy = over_ranks({13}),
                                                              .approx_kl = over_ranks({0.5, 0.25}),
                                                              .clip_fraction = over_ranks({0.1, 0.2})}};
  EXPECT_EQ(metrics.ranks->sample_ms, (OverRanks{.min = 1, .mean = 4, .max = 8}));
  JsonlSink(file).write(to_record(metrics));
  EXPECT_EQ(read_last(file, 1), metrics);
  EXPECT_EQ(read_json(read_file(file)).at("rank_env_steps_per_s_max").as_double(), 9);
}

TEST(UpdateMetricsTest, ThoseOfSeveralPoliciesAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  UpdateMetrics metrics{.updates = 1};
  const PolicyLearning learning{.policy_loss = 1,
                                .value_loss = 2,
                                .entropy = 3,
                                .approx_kl = 4,
                                .clip_fraction = 5,
                                .explained_variance = 6,
                                .grad_norm = 7,
                                .learning_rate = 8,
                                .entropy_coef = 9};
  metrics.policies = {{.name = "b",
                       .episode_return_mean = 0.5,
                       .episode_length_mean = 2.5,
                       .episodes = 7,
                       .decisions = 12,
                       .learning = learning},
                      {.name = "a", .episodes = 8}};
  JsonlSink(file).write(to_record(metrics));
  EXPECT_EQ(read_last(file, 1), metrics);
  EXPECT_EQ(read_json_file(file).at("policy/b/entropy").as_double(), 3);
  EXPECT_TRUE(read_json_file(file).at("policy/a/episode_return_mean").is_null()) << "none has ended";
}

TEST(UpdateMetricsTest, ThoseOfGradientsAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  UpdateMetrics metrics{.updates = 1};
  metrics.gradients =
      GradientMetrics{.steps = 4,
                      .step_gradients = {.min = 2, .mean = 2.5, .max = 3},
                      .effective_batch = {.min = 64, .mean = 80, .max = 96},
                      .replicas = {{.offered = 9, .accepted = 7, .applied = 6, .dropped = 2, .waited_ms = 250},
                                   {.offered = 4, .accepted = 4, .applied = 4, .dropped = 0, .waited_ms = 2000}}};
  JsonlSink(file).write(to_record(metrics));
  EXPECT_EQ(read_last(file, 1), metrics);
  EXPECT_EQ(read_json_file(file).at("effective_batch_mean").as_double(), 80);
  EXPECT_EQ(read_json_file(file).at("step_gradients_max").as_double(), 3);
  EXPECT_EQ(read_json_file(file).at("replica/1/waited_ms").as_double(), 2000);
}

TEST(UpdateMetricsTest, ThoseOfALearnerAreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  const auto file = folder / "metrics.jsonl";
  UpdateMetrics metrics{.updates = 1};
  metrics.learner = LearnerMetrics{.learner_steps = 1,
                                   .samples_sampled = 2,
                                   .samples_trained = 3,
                                   .samples_dropped = 31,
                                   .policy_lag_mean = 4.5,
                                   .policy_lag_max = 5,
                                   .learner_queue_size = 6,
                                   .learner_queue_size_std = 1.5,
                                   .learner_queue_size_min = 0,
                                   .learner_queue_size_median = 6.5,
                                   .learner_queue_size_q90 = 11,
                                   .learner_queue_size_max = 12,
                                   .learner_grad_time_ms = 7,
                                   .learner_load_time_ms = 8,
                                   .learner_load_wait_time_ms = 9,
                                   .learner_dequeue_time_ms = 10,
                                   .learner_idle = 0.25,
                                   .workers_idle = 0.5};
  JsonlSink(file).write(to_record(metrics));
  EXPECT_EQ(read_last(file, 1), metrics);
}

}  // namespace
}  // namespace tandem::app
