// rl/replay/drawn_rows.h: rows that were drawn, on their way into the caller's arrays: their rewards, the ends of their
// windows, and the goals that hindsight gives them.
//
// A window is the n steps of a row, or those until its episode ended. Threads: plain values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::rl {

/// A row that a draw chose, not yet read. Its number in the part is step * environments + env.
struct DrawnRow {
  std::int64_t step = 0, env = 0;
  /// SampleArrays::weight of it.
  double weight = 1;
};

/// The windows of all rows of a draw. Entry i * n_step + k belongs to step k of row i; entries behind a window's last
/// step are undefined. They begin as what the environment said, and hindsight may change them.
struct DrawnWindows {
  std::int64_t n_step = 1;
  std::vector<std::int64_t> steps;  // by row: of its window, 1 .. n_step
  std::vector<double> reward;
  // How each step ended the episode, as n_step.h says it.
  std::vector<std::uint8_t> end;
};

/// The desired goals that took the place of others. They replace the leaf "desired_goal" in the row's observation and
/// in its next one.
struct DrawnGoals {
  static constexpr std::int64_t kNone = -1;
  std::vector<std::int64_t> goal_of;  // by row: the number of its new goal, or kNone
  std::vector<std::byte> goals;       // one after the other
};

}  // namespace tandem::rl
