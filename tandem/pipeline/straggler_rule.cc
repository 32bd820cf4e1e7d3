#include "tandem/pipeline/straggler_rule.h"

#include <algorithm>
#include <cmath>

namespace tandem::pipeline {

StragglerRule::StragglerRule(const StragglerOptions& options, ProgressBoard board, int steps)
    : options_(options),
      board_(std::move(board)),
      steps_(steps),
      least_(std::clamp(static_cast<int>(std::ceil(options.least_frac * steps)), 1, steps)) {}

void StragglerRule::begin(std::int64_t round, std::optional<double> learn_seconds, Clock::time_point now) {
  round_ = round;
  learn_seconds_ = learn_seconds;
  began_ = now;
}

bool StragglerRule::ends(int steps, Clock::time_point now) const {
  if (steps >= steps_) return true;
  if (steps < least_) return false;
  switch (options_.policy) {
    case Stragglers::kWaitAll:
      break;
    case Stragglers::kPreempt:
      return enough_have_finished();
    case Stragglers::kTimeOptimal:
      return learn_seconds_ ? costs_more_than_it_brings(now) : enough_have_finished();
  }
  return false;
}

// A unit in a later round has finished this one.
bool StragglerRule::enough_have_finished() const {
  int finished = 0;
  for (int unit = 0; unit < board_.units(); ++unit) {
    const tandem::Progress its = board_.look(unit);
    if (its.round > round_ || (its.round == round_ && its.finished)) ++finished;
  }
  return finished >= options_.sync_frac * board_.units();
}

bool StragglerRule::costs_more_than_it_brings(Clock::time_point now) const {
  const double time = std::chrono::duration<double>(now - began_).count();
  if (time <= 0) return false;
  double all = 0, unfinished = 0;
  for (int unit = 0; unit < board_.units(); ++unit) {
    const tandem::Progress its = board_.look(unit);
    if (its.round != round_) continue;
    all += its.steps;
    if (!its.finished) unfinished += its.steps;
  }
  return unfinished / time * (time + *learn_seconds_) < all;
}

}  // namespace tandem::pipeline
