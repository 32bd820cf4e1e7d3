#include "tandem/pipeline/pipeline_report.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tandem/base/check.h"
#include "tandem/base/text.h"

namespace tandem::pipeline {
namespace {

// Reports of other ranks come as bytes (ImpalaRun::combine_ranks).
static_assert(std::is_trivially_copyable_v<PipelineReport>);

constexpr double kMuchIdle = 0.1;  // below it, neither side has reason to complain

std::string percent(double share) { return concat(std::lround(100 * share), " %"); }

}  // namespace

void PolicyLag::add(std::int64_t lag) {
  TANDEM_CHECK(lag >= 0, "a batch from ", -lag, " steps in the future");
  ++count_;
  sum_ += lag;
  max_ = std::max(max_, lag);
  ++bins_[std::min(static_cast<std::size_t>(lag), kBins - 1)];
}

void PolicyLag::add(const PolicyLag& other) {
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
  for (std::size_t bin = 0; bin < kBins; ++bin) bins_[bin] += other.bins_[bin];
}

double PolicyLag::mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }

void PipelineReport::summarize_lag() {
  policy_lag_mean = lag.mean();
  policy_lag_max = lag.max();
}

// Starts from the first rank's report, which has what all ranks share, and combines each figure as the table says.
PipelineReport combined(std::span<const PipelineReport> reports) {
  TANDEM_CHECK(!reports.empty(), "a report of no pipeline");
  PipelineReport all = reports.front();
  const auto combine = [&all, reports](const char* /*name*/, auto member, OverRanks over) {
    auto& figure = all.*member;
    for (const PipelineReport& other : reports.subspan(1)) {
      if (over == OverRanks::kSum || over == OverRanks::kMean) figure += other.*member;
      if (over == OverRanks::kMost) figure = std::max(figure, other.*member);
    }
    if (over == OverRanks::kMean) figure /= static_cast<double>(reports.size());
  };
  for_each_figure(combine);
  combine("", &PipelineReport::batches, OverRanks::kSum);
  combine("", &PipelineReport::learner_idle_of_run, OverRanks::kMost);
  combine("", &PipelineReport::workers_idle_of_run, OverRanks::kMean);
  combine("", &PipelineReport::learner_wait_seconds, OverRanks::kMost);
  for (const PipelineReport& other : reports.subspan(1)) {
    all.lag.add(other.lag);
    all.lag_of_run.add(other.lag_of_run);
  }
  all.summarize_lag();
  return all;
}

// The side that idles more is not the limit, so the advice is about the other one. A tie is blamed on sampling.
std::string advice(const PipelineReport& report) {
  const double learner = report.learner_idle_of_run, workers = report.workers_idle_of_run;
  if (learner >= kMuchIdle && learner >= workers) {
    return concat("learner idle ", percent(learner), ": add rollout workers or envs");
  }
  if (workers >= kMuchIdle) {
    return concat("rollout workers idle ", percent(workers), ": the learner is the limit; fewer workers would do");
  }
  return concat("balanced: learner idle ", percent(learner), ", rollout workers ", percent(workers));
}

}  // namespace tandem::pipeline
