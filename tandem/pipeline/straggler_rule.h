// pipeline/straggler_rule.h: when a unit ends its part of a round early, so that the rest need not wait for the
// slowest.
//
// A round is a rollout: every unit (env group) makes up to so many steps, then all learn together from what there is.
//
//   wait_all      a unit makes all its steps.
//   preempt       a unit ends once so many of all have finished, and it has made so many of its own steps. After
//                 Wijmans et al., "DD-PPO" (2020), section 3, where they are 60 % and 25 %.
//   time_optimal  a unit ends when going on would lower the steps a second of the run. With S(t) the steps of all units
//                 t seconds into the round and L the seconds that learning takes, the run makes S(t) / (t + L) of them
//                 a second; a unit that has finished adds nothing, so S is concave and the best t is the first where
//                 S'(t) < S(t) / (t + L). S' is taken as the sum of steps / t over the units that have not finished.
//                 Until L is known it does as preempt does.
//                 A round lasts at least until every unit has ended the step that it is in, and has made what it makes
//                 in any case; until then going on costs nothing. So nobody ends while another one has yet to make
//                 those, or seems stuck: its step takes longer than steps of the unit that asks take in the mean, and
//                 than its own so far.
//
// Each unit decides for itself, on what the board shows at that moment. No two runs need decide alike: what came of it
// must be recorded.
//
// Threads: one object a thread that steps units. Does not block.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/concurrency/progress_board.h"

namespace tandem::pipeline {

/// The names are those of the program's option; the file's head explains each rule.
enum class Stragglers { kWaitAll, kPreempt, kTimeOptimal };

/// Both fractions lie within 0 .. 1. kWaitAll reads neither.
struct StragglerOptions {
  Stragglers policy = Stragglers::kWaitAll;
  // The share of the units that must have finished before another one may end early. It holds for kPreempt, and for
  // kTimeOptimal until learning was timed.
  double sync_frac = 0.6;
  // The share of its steps that a unit makes in any case.
  double least_frac = 0.25;
};

/// Times are passed in with defaults, so that tests need not wait for a real clock.
class StragglerRule {
 public:
  /// `steps`: of a unit in a round.
  /// `board`: shows the progress of all units of the run; the caller posts to it, the rule only reads.
  StragglerRule(const StragglerOptions& options, ProgressBoard board, int steps);

  /// A round begins. `learn_seconds`: what learning after it will take, as measured; nothing before the first.
  void begin(std::int64_t round, std::optional<double> learn_seconds, Clock::time_point now = Clock::now());

  /// Whether a unit that has made `steps` is to end here. Who finishes first has made all its steps: nobody ends before
  /// somebody has finished, where sync_frac is above 0. Ask after each of its steps: how long others have been in
  /// theirs is known from what was seen of them before.
  [[nodiscard]] bool ends(int steps, Clock::time_point now = Clock::now());

 private:
  // A unit's progress in this round, as look() saw it.
  struct Seen {
    tandem::Progress newest;
    int changes = 0;  // of its steps
    Clock::time_point changed;
  };

  // The conditions of the file's head, one function each. look() refreshes seen_ for the two below it.
  void look(Clock::time_point now);
  [[nodiscard]] bool enough_have_finished() const;
  [[nodiscard]] bool costs_more_than_it_brings(Clock::time_point now) const;
  [[nodiscard]] bool round_goes_on_anyway(int steps, Clock::time_point now) const;

  const StragglerOptions options_;
  const ProgressBoard board_;
  // A unit's steps in a full round, and the fewest that it makes in any case.
  const int steps_, least_;
  std::int64_t round_ = 0;
  std::optional<double> learn_seconds_;
  Clock::time_point began_;
  // One entry per unit of the run, in the board's order; reset by begin().
  std::vector<Seen> seen_;
};

}  // namespace tandem::pipeline
