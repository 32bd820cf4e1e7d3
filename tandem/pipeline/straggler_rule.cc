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
  // Nobody has been seen in this round, so the time in the first step counts from its begin.
  seen_.assign(static_cast<std::size_t>(board_.units()), {.newest = {}, .changes = 0, .changed = now});
}

// Nobody ends before its least share of steps, and everybody ends with all of them. Between the two the policy decides.
// kTimeOptimal looks at the others in every step, also where the answer is clear: how long they have been in a step is
// known only from earlier looks.
bool StragglerRule::ends(int steps, Clock::time_point now) {
  if (options_.policy == Stragglers::kTimeOptimal) look(now);
  if (steps >= steps_) return true;
  if (steps < least_) return false;
  switch (options_.policy) {
    case Stragglers::kWaitAll:
      break;
    case Stragglers::kPreempt:
      return enough_have_finished();
    case Stragglers::kTimeOptimal:
      if (!learn_seconds_) return enough_have_finished();
      return costs_more_than_it_brings(now) && !round_goes_on_anyway(steps, now);
  }
  return false;
}

// Notes when each unit's number of steps changed.
void StragglerRule::look(Clock::time_point now) {
  for (int unit = 0; unit < board_.units(); ++unit) {
    const tandem::Progress its = board_.look(unit);
    Seen& seen = seen_[static_cast<std::size_t>(unit)];
    const int before = seen.newest.round == round_ ? seen.newest.steps : 0;
    seen.newest = its;
    if (its.round != round_ || its.steps == before) continue;
    ++seen.changes;
    seen.changed = now;
  }
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

// Whether S'(t) (t + L) < S(t), with the names of the header.
bool StragglerRule::costs_more_than_it_brings(Clock::time_point now) const {
  const double time = std::chrono::duration<double>(now - began_).count();
  if (time <= 0) return false;
  double all = 0, unfinished = 0;
  for (const auto& [its, changes, changed] : seen_) {
    if (its.round != round_) continue;
    all += its.steps;
    if (!its.finished) unfinished += its.steps;
  }
  return unfinished / time * (time + *learn_seconds_) < all;
}

// Whether the round cannot end yet whatever this unit does: another unit has yet to make its least steps, or seems
// stuck in a step. A unit posts its own last step before it asks, so it does not wait for itself.
bool StragglerRule::round_goes_on_anyway(int steps, Clock::time_point now) const {
  const Clock::duration time = now - began_, mine = time / steps;
  for (const auto& [its, changes, changed] : seen_) {
    if (its.round > round_ || (its.round == round_ && its.finished)) continue;
    if (its.round < round_ || its.steps < least_) return true;
    if (now - changed > std::max(mine, time / std::max(1, changes))) return true;
  }
  return false;
}

}  // namespace tandem::pipeline
