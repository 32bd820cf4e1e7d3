// app/algo/schedules.h: what the algorithms say alike of options that are schedules (rl/algo/schedule.h).
//
// A schedule of the program is a word or a list of points. A function has no text that could be recorded with the run
// and read at a resume, so it belongs to programs that fill the library's options themselves.
//
// Threads: all.
#pragma once
#include <string_view>

#include "tandem/app/config/algorithm.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/schedule.h"

namespace tandem::app {

/// The help of such an option, in `tandem train --help` and in the comments of config.yaml. The word `constant` needs
/// no explanation there: it stands beside it as the default.
inline constexpr const char* kScheduleHelp =
    "linear: down to 0 at total_steps; piecewise(0: 3e-4, 0.5: 1e-4, 1: 0): these values instead, by the share of "
    "total_steps that is made.";

/// Adds a fault of `key` where a point of a learning rate's schedule is beyond the bounds of the learning rate itself:
/// the schedule knows no upper bound, since other options have none. Call it with the schedule as it was parsed; one at
/// fault has no points and adds nothing.
inline void check_learning_rates(Rules& rules, std::string_view key, const rl::Schedule& schedule) {
  for (const auto& [share, value] : schedule.points()) {
    if (value > 1) return rules.fault(key, concat("a learning rate is at most 1, and at ", share, " it is ", value));
  }
}

}  // namespace tandem::app
