#include "tandem/pipeline/pipeline_stats.h"

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

double milliseconds(Clock::duration span) { return std::chrono::duration<double, std::milli>(span).count(); }

// The mean in milliseconds, rounded to the microsecond as RLlib reports it.
double mean_ms(const WindowStat& window) { return std::round(1e3 * window.mean().value_or(0)) / 1e3; }

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

void PipelineStats::sampled(std::int64_t samples) {
  MutexLock lock(mutex_);
  now_.samples_sampled += samples;
}

void PipelineStats::produced(Clock::duration working, Clock::duration waiting) {
  MutexLock lock(mutex_);
  workers_.add({working, waiting});
}

void PipelineStats::loaded(Clock::duration dequeue, Clock::duration load) {
  MutexLock lock(mutex_);
  dequeue_.add(milliseconds(dequeue));
  load_.add(milliseconds(load));
}

void PipelineStats::learned(const Step& step) {
  MutexLock lock(mutex_);
  queue_size_.add(static_cast<double>(step.queue_size));
  load_wait_.add(milliseconds(step.waiting));
  grad_.add(milliseconds(step.learning));
  now_.lag.add(step.lag);
  now_.lag_of_run.add(step.lag);
  ++now_.learner_steps;
  now_.samples_trained += step.samples;
  if (step.first_pass) ++now_.batches;
  learner_.add({step.learning, step.waiting});
}

void PipelineStats::dropped(std::int64_t samples) {
  MutexLock lock(mutex_);
  ++now_.batches;
  now_.samples_dropped += samples;
}

// Sums that go on (now_) stay; windows stay; lags and shares since the last report begin anew.
PipelineReport PipelineStats::report() {
  MutexLock lock(mutex_);
  now_.learner_grad_time_ms = mean_ms(grad_);
  now_.learner_load_time_ms = mean_ms(load_);
  now_.learner_load_wait_time_ms = mean_ms(load_wait_);
  now_.learner_dequeue_time_ms = mean_ms(dequeue_);
  now_.learner_queue_size = queue_size_.mean().value_or(0);
  now_.learner_queue_size_std = queue_size_.standard_deviation().value_or(0);
  now_.learner_queue_size_min = queue_size_.min().value_or(0);
  now_.learner_queue_size_median = queue_size_.quantile(0.5).value_or(0);
  now_.learner_queue_size_q90 = queue_size_.quantile(0.9).value_or(0);
  now_.learner_queue_size_max = queue_size_.max().value_or(0);
  now_.summarize_lag();
  now_.learner_idle = learner_.idle();
  now_.workers_idle = workers_.idle();
  now_.learner_wait_seconds = std::chrono::duration<double>(learner_.waiting).count();
  // Shares of the whole run come from the sums before plus those since; a mean of shares would weigh reports equally.
  learner_before_.add(learner_);
  workers_before_.add(workers_);
  now_.learner_idle_of_run = learner_before_.idle();
  now_.workers_idle_of_run = workers_before_.idle();
  const PipelineReport report = now_;
  now_.lag = {};
  learner_ = workers_ = {};
  return report;
}

}  // namespace tandem::pipeline
