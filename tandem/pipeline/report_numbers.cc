#include "tandem/pipeline/report_numbers.h"

#include <algorithm>
#include <array>

#include "tandem/base/check.h"

namespace tandem::pipeline {
namespace {

constexpr std::array kTimes{&PipelineReport::grad_ms, &PipelineReport::load_ms, &PipelineReport::load_wait_ms,
                            &PipelineReport::dequeue_ms};
constexpr std::array kSamples{&PipelineReport::batches, &PipelineReport::samples_sampled,
                              &PipelineReport::samples_trained, &PipelineReport::samples_dropped};
constexpr std::array kLearner{&PipelineReport::learner_idle, &PipelineReport::learner_idle_of_run,
                              &PipelineReport::learner_wait_seconds};
constexpr std::array kWorkers{&PipelineReport::workers_idle, &PipelineReport::workers_idle_of_run};
constexpr std::array kQueue{&WindowSummary::mean,   &WindowSummary::standard_deviation, &WindowSummary::min,
                            &WindowSummary::median, &WindowSummary::quantile_90,        &WindowSummary::max};
constexpr std::size_t kNumbers = kTimes.size() + kSamples.size() + kLearner.size() + kWorkers.size() + kQueue.size() +
                                 2 /* steps, values of the queue */ + 2 * PolicyLag::kNumbers;

}  // namespace

std::vector<double> numbers_of(const PipelineReport& report) {
  std::vector<double> numbers{static_cast<double>(report.steps), static_cast<double>(report.queue_size.count)};
  numbers.reserve(kNumbers);
  for (const auto time : kTimes) numbers.push_back(report.*time);
  for (const auto count : kSamples) numbers.push_back(static_cast<double>(report.*count));
  for (const auto share : kLearner) numbers.push_back(report.*share);
  for (const auto share : kWorkers) numbers.push_back(report.*share);
  for (const auto figure : kQueue) numbers.push_back(report.queue_size.*figure);
  report.lag.append_numbers(numbers);
  report.lag_of_run.append_numbers(numbers);
  return numbers;
}

PipelineReport report_of(std::span<const double> numbers) {
  TANDEM_CHECK(numbers.size() == kNumbers, numbers.size(), " numbers of a pipeline, expected ", kNumbers);
  const auto next = [&numbers] {
    const double number = numbers.front();
    numbers = numbers.subspan(1);
    return number;
  };
  PipelineReport report;
  report.steps = static_cast<std::int64_t>(next());
  report.queue_size.count = static_cast<std::size_t>(next());
  for (const auto time : kTimes) report.*time = next();
  for (const auto count : kSamples) report.*count = static_cast<std::int64_t>(next());
  for (const auto share : kLearner) report.*share = next();
  for (const auto share : kWorkers) report.*share = next();
  for (const auto figure : kQueue) report.queue_size.*figure = next();
  report.lag.set_numbers(numbers.first<PolicyLag::kNumbers>());
  report.lag_of_run.set_numbers(numbers.last<PolicyLag::kNumbers>());
  return report;
}

PipelineReport combined(std::span<const PipelineReport> reports) {
  TANDEM_CHECK(!reports.empty(), "a report of no pipeline");
  PipelineReport all = reports.front();
  for (const PipelineReport& other : reports.subspan(1)) {
    for (const auto time : kTimes) all.*time += other.*time;
    for (const auto count : kSamples) all.*count += other.*count;
    for (const auto share : kLearner) all.*share = std::max(all.*share, other.*share);
    for (const auto share : kWorkers) all.*share += other.*share;
    for (const auto figure : kQueue) all.queue_size.*figure += other.queue_size.*figure;
    all.queue_size.count += other.queue_size.count;
    all.lag.add(other.lag);
    all.lag_of_run.add(other.lag_of_run);
  }
  const auto count = static_cast<double>(reports.size());
  for (const auto time : kTimes) all.*time /= count;
  for (const auto share : kWorkers) all.*share /= count;
  for (const auto figure : kQueue) all.queue_size.*figure /= count;
  return all;
}

}  // namespace tandem::pipeline
