#include "tandem/sync/step_clock.h"

#include <array>
#include <chrono>
#include <utility>

namespace tandem::sync {
namespace {

constexpr std::array kCosts{&StepCosts::seconds,
                            &StepCosts::forward_seconds,
                            &StepCosts::backward_seconds,
                            &StepCosts::communication_seconds,
                            &StepCosts::exposed_seconds,
                            &StepCosts::hidden_seconds,
                            &StepCosts::bytes};

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

double StepClock::lap() {
  const Clock::time_point now = Clock::now();
  return seconds_between(std::exchange(mark_, now), now);
}

// The next step begins where this one ends, so that steps leave no gap.
void StepClock::end_step(double exposed_seconds, double hidden_seconds, std::int64_t bytes) {
  const Clock::time_point now = Clock::now();
  step_.seconds = seconds_between(std::exchange(begin_, now), now);
  mark_ = now;
  step_.exposed_seconds = exposed_seconds;
  step_.hidden_seconds = hidden_seconds;
  step_.communication_seconds = exposed_seconds + hidden_seconds;
  step_.bytes = static_cast<double>(bytes);
  for (const auto cost : kCosts) sum_.*cost += step_.*cost;
  last_ = std::exchange(step_, {});
  ++steps_;
}

void StepClock::take(DataParallelReport& report) {
  report.last = last_;
  report.mean = std::exchange(sum_, {});
  report.steps = std::exchange(steps_, 0);
  if (report.steps == 0) return;
  for (const auto cost : kCosts) report.mean.*cost /= static_cast<double>(report.steps);
}

}  // namespace tandem::sync
