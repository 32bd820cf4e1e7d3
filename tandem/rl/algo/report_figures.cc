// The figures of a RunReport (training_run.h), by the names that they have in metrics.
#include <algorithm>
#include <functional>
#include <string>

#include "tandem/base/text.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {
namespace {

double ms(double seconds) { return 1e3 * seconds; }

void add_learning(const LearnReport& learning, const std::string& prefix, Record& record) {
  for (const auto& [name, loss] : kLosses) record.add(prefix + name, learning.*loss);
  record.add(prefix + "explained_variance", learning.explained_variance);
  record.add(prefix + "grad_norm", learning.grad_norm).add(prefix + "learning_rate", learning.learning_rate);
}

void add_over(const std::string& name, double least, double mean, double most, Record& record) {
  record.add(name + "_min", least).add(name + "_mean", mean).add(name + "_max", most);
}

// `figure` of each of `all`, which are not empty.
template <typename Rank, typename Figure>
void add_over_ranks(const std::string& name, const std::vector<Rank>& all, Figure figure, Record& record) {
  double least = std::invoke(figure, all.front()), most = least, sum = 0;
  for (const Rank& its : all) {
    const double value = std::invoke(figure, its);
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
  }
  add_over("rank_" + name, least, sum / static_cast<double>(all.size()), most, record);
}

// Ranks that had no rows to learn from have no part in the figures of learning.
void add_ranks(const std::vector<RankReport>& ranks, Record& record) {
  const auto add = [&](const char* name, auto figure) { add_over_ranks(name, ranks, figure, record); };
  add("sample_ms", [](const RankReport& rank) { return ms(rank.sample_seconds); });
  add("learn_ms", [](const RankReport& rank) { return ms(rank.learn_seconds); });
  add("wait_ms", [](const RankReport& rank) { return ms(rank.wait_seconds); });
  add("env_steps_per_s", [](const RankReport& rank) { return static_cast<double>(rank.env_steps) / rank.seconds(); });
  std::vector<RankReport::Learning> learning;
  for (const RankReport& rank : ranks) {
    if (rank.learning) learning.push_back(*rank.learning);
  }
  if (learning.empty()) return;
  add_over_ranks("rows_trained", learning, &RankReport::Learning::rows, record);
  for (const auto& [name, loss] : kLosses) add_over_ranks(name, learning, loss, record);
}

void add_pipeline(const pipeline::PipelineReport& report, Record& record) {
  pipeline::for_each_figure(
      [&](const char* name, auto figure, pipeline::OverRanks) { record.add(name, report.*figure); });
}

void add_gradients(const learner::GradientReport& report, Record& record) {
  const sync::StepSizes& sizes = report.sizes;
  const auto add_over_steps = [&](const char* name, sync::OverSteps sync::StepSizes::*figure) {
    add_over(name, (sizes.*figure).least, sizes.mean_of(figure), (sizes.*figure).most, record);
  };
  record.add("steps_made", sizes.steps);
  add_over_steps("step_gradients", &sync::StepSizes::gradients);
  add_over_steps("effective_batch", &sync::StepSizes::rows);
  for (std::size_t i = 0; i < report.replicas.size(); ++i) {
    const auto& [totals, waited_seconds] = report.replicas[i];
    const std::string prefix = concat("replica/", i, "/");
    record.add(prefix + "offered", totals.offered).add(prefix + "accepted", totals.accepted());
    record.add(prefix + "applied", totals.applied).add(prefix + "dropped", totals.dropped);
    record.add(prefix + "waited_ms", ms(waited_seconds));
  }
}

// Means of episodes are left empty until one has ended, instead of a zero that would look like a return.
void add_policy(const PolicyReport& policy, Record& record) {
  const std::string prefix = concat("policy/", policy.name, "/");
  const auto if_any_ended = [&](double mean) { return policy.episodes > 0 ? std::optional(mean) : std::nullopt; };
  record.add(prefix + "episodes", policy.episodes);
  record.add(prefix + "episode_return_mean", if_any_ended(policy.episode_return_mean));
  record.add(prefix + "episode_length_mean", if_any_ended(policy.episode_length_mean));
  record.add(prefix + "decisions", policy.decisions);
  if (!policy.learning) return;
  add_learning(*policy.learning, prefix, record);
  record.add(prefix + "entropy_coef", policy.learning->entropy_coef);
}

}  // namespace

Record figures_of(const RunReport& report) {
  Record record;
  for (const MetricReport& metric : report.metrics) record.add(concat(kEnvFigures, metric.name), metric.mean);
  add_learning(report.learning, "", record);
  record.add("sample_ms", ms(report.sample_seconds)).add("load_ms", ms(report.learning.load_seconds));
  record.add("learn_ms", ms(report.learning.learn_seconds)).add("sync_ms", ms(report.learning.sync_seconds));
  if (report.learning.kl_coef > 0) record.add("kl_coef", report.learning.kl_coef);
  if (report.ranks.size() > 1) add_ranks(report.ranks, record);
  if (report.rollouts) {
    record.add("rows_cut", report.rollouts->rows_cut).add("saved_ms", ms(report.rollouts->saved_seconds));
  }
  if (report.pipeline) add_pipeline(*report.pipeline, record);
  if (report.gradients) add_gradients(*report.gradients, record);
  for (const PolicyReport& policy : report.policies) add_policy(policy, record);
  for (const auto& [name, figure] : report.own) record.add(name, figure);
  return record;
}

}  // namespace tandem::rl
