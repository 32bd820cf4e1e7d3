#include "tandem/pipeline/pipeline_stats.h"

#include <cmath>

#include "tandem/base/text.h"

namespace tandem::pipeline {
namespace {

constexpr double kMuchIdle = 0.1;  // below it, neither side has reason to complain

double milliseconds(Clock::duration span) { return std::chrono::duration<double, std::milli>(span).count(); }

// To the microsecond, as RLlib reports them.
double mean_ms(const WindowStat& window) { return std::round(1e3 * window.mean().value_or(0)) / 1e3; }

std::string percent(double share) { return concat(std::lround(100 * share), " %"); }

}  // namespace

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

WindowSummary summary_of(const WindowStat& window) {
  return {.count = window.count(),
          .mean = window.mean().value_or(0),
          .standard_deviation = window.standard_deviation().value_or(0),
          .min = window.min().value_or(0),
          .median = window.quantile(0.5).value_or(0),
          .quantile_90 = window.quantile(0.9).value_or(0),
          .max = window.max().value_or(0)};
}

void PipelineStats::Share::add(const Share& other) {
  working += other.working;
  waiting += other.waiting;
}

double PipelineStats::Share::idle() const {
  const Clock::duration all = working + waiting;
  return all > Clock::duration::zero() ? static_cast<double>(waiting.count()) / static_cast<double>(all.count()) : 0;
}

void PipelineStats::sampled(std::int64_t samples) {
  MutexLock lock(mutex_);
  now_.samples_sampled += samples;
}

void PipelineStats::produced(Clock::duration working, Clock::duration waiting) {
  MutexLock lock(mutex_);
  workers_.working += working;
  workers_.waiting += waiting;
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
  ++now_.steps;
  now_.samples_trained += step.samples;
  if (step.first_pass) ++now_.batches;
  learner_.working += step.learning;
  learner_.waiting += step.waiting;
}

void PipelineStats::dropped(std::int64_t samples) {
  MutexLock lock(mutex_);
  ++now_.batches;
  now_.samples_dropped += samples;
}

PipelineReport PipelineStats::report() {
  MutexLock lock(mutex_);
  now_.grad_ms = mean_ms(grad_);
  now_.load_ms = mean_ms(load_);
  now_.load_wait_ms = mean_ms(load_wait_);
  now_.dequeue_ms = mean_ms(dequeue_);
  now_.queue_size = summary_of(queue_size_);
  now_.learner_idle = learner_.idle();
  now_.workers_idle = workers_.idle();
  now_.learner_wait_seconds = std::chrono::duration<double>(learner_.waiting).count();
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
