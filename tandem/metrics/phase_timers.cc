#include "tandem/metrics/phase_timers.h"

#include <chrono>
#include <utility>

#include "tandem/base/check.h"

namespace tandem {

PhaseTimers::PhaseTimers(std::vector<std::string> names)
    : names_(std::move(names)), phases_(names_.size()), since_(Clock::now()) {
  TANDEM_CHECK(!names_.empty(), "no phases");
}

const PhaseTimers::Phase& PhaseTimers::at(std::size_t phase) const {
  TANDEM_CHECK(phase < phases_.size(), "phase ", phase, " of ", phases_.size());
  return phases_[phase];
}

void PhaseTimers::charge() {
  const Clock::time_point now = Clock::now();
  if (current_) phases_[*current_].total += now - since_;
  since_ = now;
}

PhaseTimers::Scope PhaseTimers::enter(std::size_t phase) {
  (void)at(phase);
  charge();
  ++phases_[phase].entries;
  return {*this, std::exchange(current_, phase)};
}

void PhaseTimers::leave(std::optional<std::size_t> outer) {
  charge();
  current_ = outer;
}

Clock::duration PhaseTimers::total(std::size_t phase) const { return at(phase).total; }

double PhaseTimers::milliseconds(std::size_t phase) const {
  return std::chrono::duration<double, std::milli>(total(phase)).count();
}

std::uint64_t PhaseTimers::entries(std::size_t phase) const { return at(phase).entries; }

void PhaseTimers::reset() {
  for (Phase& phase : phases_) phase = Phase();
  since_ = Clock::now();
}

}  // namespace tandem
