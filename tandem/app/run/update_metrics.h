// app/run/update_metrics.h: the numbers of one update: a line of metrics.jsonl, and what the progress shows.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "tandem/app/run/gradient_metrics.h"
#include "tandem/app/run/policy_metrics.h"
#include "tandem/base/json_reader.h"
#include "tandem/metrics/sink.h"

namespace tandem::app {

/// Of a run that samples and learns at the same time. Times are means over the last 50 batches.
struct LearnerMetrics {
  std::int64_t learner_steps = 0;    // since this process started
  std::int64_t samples_sampled = 0;  // by the rollout workers, those still on their way included
  std::int64_t samples_trained = 0;  // each pass counts
  std::int64_t samples_dropped = 0;  // too old to be learned from, of this process
  double policy_lag_mean = 0;        // learner steps between a batch's policy and its use, in this update
  std::int64_t policy_lag_max = 0;
  double learner_queue_size = 0;  // batches that waited, mean; and more of the same 50
  double learner_queue_size_std = 0, learner_queue_size_min = 0, learner_queue_size_median = 0;
  double learner_queue_size_q90 = 0, learner_queue_size_max = 0;
  double learner_grad_time_ms = 0, learner_load_time_ms = 0, learner_load_wait_time_ms = 0, learner_dequeue_time_ms = 0;
  double learner_idle = 0, workers_idle = 0;  // shares of their time in this update

  friend bool operator==(const LearnerMetrics&, const LearnerMetrics&) = default;
};

/// Of a run in which rollouts may end early.
struct RolloutMetrics {
  std::int64_t rows_cut = 0;  // environment steps that were not made in this update
  double saved_ms = 0;        // and what that saved

  friend bool operator==(const RolloutMetrics&, const RolloutMetrics&) = default;
};

/// One figure over the ranks of an update.
struct OverRanks {
  double min = 0, mean = 0, max = 0;

  friend bool operator==(const OverRanks&, const OverRanks&) = default;
};
[[nodiscard]] OverRanks over_ranks(const std::vector<double>& figures);

/// What the ranks learned from, each from its own rows; of those that had any.
struct RankLearningMetrics {
  OverRanks rows_trained;  // each pass counts
  OverRanks policy_loss, value_loss, entropy, approx_kl, clip_fraction;

  friend bool operator==(const RankLearningMetrics&, const RankLearningMetrics&) = default;
};

/// Of a run on several ranks, in one update. The three times of a rank are together all of its update.
struct RankMetrics {
  OverRanks sample_ms, learn_ms;  // waits left out
  OverRanks wait_ms;              // for other ranks
  OverRanks env_steps_per_s;
  std::optional<RankLearningMetrics> learning = {};  // of PPO

  friend bool operator==(const RankMetrics&, const RankMetrics&) = default;
};

struct UpdateMetrics {
  std::int64_t updates = 0, env_steps = 0;                                   // since the run's start, resumes included
  double wall_s = 0;                                                         // since this process started
  double env_steps_per_s = 0;                                                // of this process, its start-up left out
  std::optional<double> episode_return_mean = {}, episode_length_mean = {};  // last 100 episodes; none before the first
  std::int64_t episodes = 0;
  double policy_loss = 0, value_loss = 0, entropy = 0, approx_kl = 0, clip_fraction = 0;  // means over the minibatches
  double explained_variance = 0, grad_norm = 0, learning_rate = 0;
  double sample_ms = 0, load_ms = 0, learn_ms = 0, sync_ms = 0;  // of this update, of the slowest replica
  std::optional<double> kl_coef = {};  // with a penalty on the divergence: its weight in this update
  std::optional<RankMetrics> ranks = {};
  std::optional<RolloutMetrics> rollouts = {};
  std::optional<LearnerMetrics> learner = {};
  std::optional<GradientMetrics> gradients = {};  // where some may be dropped: the steps are those of this update
  // Of runs with several agents, in which the returns above are summed over them, and what was learned is the mean over
  // the policies that are trained.
  std::vector<PolicyMetrics> policies = {};

  friend bool operator==(const UpdateMetrics&, const UpdateMetrics&) = default;
};

/// The fields under their names, in this order.
[[nodiscard]] Record to_record(const UpdateMetrics& metrics);

/// What a line of metrics.jsonl says. Throws DataError when it is none of to_record()'s.
[[nodiscard]] UpdateMetrics from_line(const JsonValue& line);

/// The update of the last line of a metrics.jsonl; nothing where there is no line. Throws as read_last().
[[nodiscard]] std::optional<std::int64_t> last_update(const std::filesystem::path& file);

/// What the last line of a metrics.jsonl says of an update; nothing where there is no line, or one of another update.
/// Throws CheckpointError when the file cannot be read, DataError when the line is none of to_record()'s.
[[nodiscard]] std::optional<UpdateMetrics> read_last(const std::filesystem::path& file, std::int64_t updates);

}  // namespace tandem::app
