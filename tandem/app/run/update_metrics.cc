#include "tandem/app/run/update_metrics.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/app/run/written_number.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"

namespace tandem::app {
namespace {

std::string_view last_line(std::string_view text) {
  const std::size_t end = text.rfind('\n');
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end);
  return text.substr(text.rfind('\n') + 1);  // npos + 1 is 0
}

void add_learner(const LearnerMetrics& learner, Record& record) {
  record.add("learner_steps", learner.learner_steps);
  record.add("samples_sampled", learner.samples_sampled).add("samples_trained", learner.samples_trained);
  record.add("samples_dropped", learner.samples_dropped);
  record.add("policy_lag_mean", learner.policy_lag_mean).add("policy_lag_max", learner.policy_lag_max);
  record.add("learner_queue_size", learner.learner_queue_size);
  record.add("learner_queue_size_std", learner.learner_queue_size_std);
  record.add("learner_queue_size_min", learner.learner_queue_size_min);
  record.add("learner_queue_size_median", learner.learner_queue_size_median);
  record.add("learner_queue_size_q90", learner.learner_queue_size_q90);
  record.add("learner_queue_size_max", learner.learner_queue_size_max);
  record.add("learner_grad_time_ms", learner.learner_grad_time_ms);
  record.add("learner_load_time_ms", learner.learner_load_time_ms);
  record.add("learner_load_wait_time_ms", learner.learner_load_wait_time_ms);
  record.add("learner_dequeue_time_ms", learner.learner_dequeue_time_ms);
  record.add("learner_idle", learner.learner_idle).add("workers_idle", learner.workers_idle);
}

void add_over_ranks(const std::string& name, const OverRanks& figure, Record& record) {
  record.add("rank_" + name + "_min", figure.min).add("rank_" + name + "_mean", figure.mean);
  record.add("rank_" + name + "_max", figure.max);
}

OverRanks read_over_ranks(const std::string& name, const JsonValue& line) {
  return {.min = number(line, "rank_" + name + "_min"),
          .mean = number(line, "rank_" + name + "_mean"),
          .max = number(line, "rank_" + name + "_max")};
}

constexpr std::array kRankLearning{
    std::pair{"rows_trained", &RankLearningMetrics::rows_trained},
    std::pair{"policy_loss", &RankLearningMetrics::policy_loss},
    std::pair{"value_loss", &RankLearningMetrics::value_loss},
    std::pair{"entropy", &RankLearningMetrics::entropy},
    std::pair{"approx_kl", &RankLearningMetrics::approx_kl},
    std::pair{"clip_fraction", &RankLearningMetrics::clip_fraction},
};

void add_rank_learning(const RankLearningMetrics& learning, Record& record) {
  for (const auto& [name, figure] : kRankLearning) add_over_ranks(name, learning.*figure, record);
}

std::optional<RankLearningMetrics> read_rank_learning(const JsonValue& line) {
  if (line.find("rank_rows_trained_min") == nullptr) return std::nullopt;
  RankLearningMetrics learning;
  for (const auto& [name, figure] : kRankLearning) learning.*figure = read_over_ranks(name, line);
  return learning;
}

std::optional<RankMetrics> read_ranks(const JsonValue& line) {
  if (line.find("rank_wait_ms_min") == nullptr) return std::nullopt;
  return RankMetrics{.sample_ms = read_over_ranks("sample_ms", line),
                     .learn_ms = read_over_ranks("learn_ms", line),
                     .wait_ms = read_over_ranks("wait_ms", line),
                     .env_steps_per_s = read_over_ranks("env_steps_per_s", line),
                     .learning = read_rank_learning(line)};
}

std::optional<RolloutMetrics> read_rollouts(const JsonValue& line) {
  if (line.find("rows_cut") == nullptr) return std::nullopt;
  return RolloutMetrics{.rows_cut = line.at("rows_cut").as_int64(), .saved_ms = number(line, "saved_ms")};
}

std::optional<LearnerMetrics> read_learner(const JsonValue& line) {
  if (line.find("learner_steps") == nullptr) return std::nullopt;
  return LearnerMetrics{.learner_steps = line.at("learner_steps").as_int64(),
                        .samples_sampled = line.at("samples_sampled").as_int64(),
                        .samples_trained = line.at("samples_trained").as_int64(),
                        .samples_dropped = line.at("samples_dropped").as_int64(),
                        .policy_lag_mean = number(line, "policy_lag_mean"),
                        .policy_lag_max = line.at("policy_lag_max").as_int64(),
                        .learner_queue_size = number(line, "learner_queue_size"),
                        .learner_queue_size_std = number(line, "learner_queue_size_std"),
                        .learner_queue_size_min = number(line, "learner_queue_size_min"),
                        .learner_queue_size_median = number(line, "learner_queue_size_median"),
                        .learner_queue_size_q90 = number(line, "learner_queue_size_q90"),
                        .learner_queue_size_max = number(line, "learner_queue_size_max"),
                        .learner_grad_time_ms = number(line, "learner_grad_time_ms"),
                        .learner_load_time_ms = number(line, "learner_load_time_ms"),
                        .learner_load_wait_time_ms = number(line, "learner_load_wait_time_ms"),
                        .learner_dequeue_time_ms = number(line, "learner_dequeue_time_ms"),
                        .learner_idle = number(line, "learner_idle"),
                        .workers_idle = number(line, "workers_idle")};
}

// Null where there is none.
JsonValue read_last_line(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return JsonValue(nullptr);
  const std::string text = read_file(file);
  const std::string_view written = last_line(text);
  return written.empty() ? JsonValue(nullptr) : read_json(written);
}

}  // namespace

OverRanks over_ranks(const std::vector<double>& figures) {
  const auto [min, max] = std::minmax_element(figures.begin(), figures.end());
  const double sum = std::accumulate(figures.begin(), figures.end(), 0.0);
  return {.min = *min, .mean = sum / static_cast<double>(figures.size()), .max = *max};
}

Record to_record(const UpdateMetrics& metrics) {
  Record record;
  record.add("updates", metrics.updates).add("env_steps", metrics.env_steps);
  record.add("wall_s", metrics.wall_s).add("env_steps_per_s", metrics.env_steps_per_s);
  record.add("episode_return_mean", metrics.episode_return_mean);
  record.add("episode_length_mean", metrics.episode_length_mean);
  record.add("episodes", metrics.episodes);
  record.add("policy_loss", metrics.policy_loss).add("value_loss", metrics.value_loss);
  record.add("entropy", metrics.entropy).add("approx_kl", metrics.approx_kl);
  record.add("clip_fraction", metrics.clip_fraction).add("explained_variance", metrics.explained_variance);
  record.add("grad_norm", metrics.grad_norm).add("learning_rate", metrics.learning_rate);
  record.add("sample_ms", metrics.sample_ms).add("load_ms", metrics.load_ms);
  record.add("learn_ms", metrics.learn_ms).add("sync_ms", metrics.sync_ms);
  if (metrics.kl_coef) record.add("kl_coef", *metrics.kl_coef);
  if (metrics.ranks) {
    add_over_ranks("sample_ms", metrics.ranks->sample_ms, record);
    add_over_ranks("learn_ms", metrics.ranks->learn_ms, record);
    add_over_ranks("wait_ms", metrics.ranks->wait_ms, record);
    add_over_ranks("env_steps_per_s", metrics.ranks->env_steps_per_s, record);
    if (metrics.ranks->learning) add_rank_learning(*metrics.ranks->learning, record);
  }
  if (metrics.rollouts) record.add("rows_cut", metrics.rollouts->rows_cut).add("saved_ms", metrics.rollouts->saved_ms);
  if (metrics.learner) add_learner(*metrics.learner, record);
  if (metrics.gradients) add_gradients(*metrics.gradients, record);
  for (const PolicyMetrics& policy : metrics.policies) add_policy(policy, record);
  return record;
}

std::optional<std::int64_t> last_update(const std::filesystem::path& file) {
  const JsonValue line = read_last_line(file);
  if (line.is_null()) return std::nullopt;
  return line.at("updates").as_int64();
}

UpdateMetrics from_line(const JsonValue& line) {
  return UpdateMetrics{.updates = line.at("updates").as_int64(),
                       .env_steps = line.at("env_steps").as_int64(),
                       .wall_s = number(line, "wall_s"),
                       .env_steps_per_s = number(line, "env_steps_per_s"),
                       .episode_return_mean = optional_number(line, "episode_return_mean"),
                       .episode_length_mean = optional_number(line, "episode_length_mean"),
                       .episodes = line.at("episodes").as_int64(),
                       .policy_loss = number(line, "policy_loss"),
                       .value_loss = number(line, "value_loss"),
                       .entropy = number(line, "entropy"),
                       .approx_kl = number(line, "approx_kl"),
                       .clip_fraction = number(line, "clip_fraction"),
                       .explained_variance = number(line, "explained_variance"),
                       .grad_norm = number(line, "grad_norm"),
                       .learning_rate = number(line, "learning_rate"),
                       .sample_ms = number(line, "sample_ms"),
                       .load_ms = number(line, "load_ms"),
                       .learn_ms = number(line, "learn_ms"),
                       .sync_ms = number(line, "sync_ms"),
                       .kl_coef = line.find("kl_coef") != nullptr ? optional_number(line, "kl_coef") : std::nullopt,
                       .ranks = read_ranks(line),
                       .rollouts = read_rollouts(line),
                       .learner = read_learner(line),
                       .gradients = read_gradients(line),
                       .policies = read_policies(line)};
}

std::optional<UpdateMetrics> read_last(const std::filesystem::path& file, std::int64_t updates) {
  const JsonValue line = read_last_line(file);
  if (line.is_null() || line.at("updates").as_int64() != updates) return std::nullopt;
  return from_line(line);
}

}  // namespace tandem::app
