// rl/replay/drawn_rows.h: rows that were drawn, on their way into the caller's arrays: their rewards, the ends of their
// windows, and the goals that hindsight gives them.
//
// A window is the n steps of a row, or those until its episode ended. Threads: plain values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::rl {

struct DrawnRow {
  std::int64_t step = 0, env = 0;
  double weight = 1;
};

/// The windows of all rows of a draw. Entry i * n_step + k belongs to step k of row i.
struct DrawnWindows {
  std::int64_t n_step = 1;
  std::vector<std::int64_t> steps;  // by row: of its window, 1 .. n_step
  std::vector<double> reward;
  std::vector<std::uint8_t> end;  // n_step.h
};

/// The desired goals that took the place of others.
struct DrawnGoals {
  static constexpr std::int64_t kNone = -1;
  std::vector<std::int64_t> goal_of;  // by row: the number of its new goal, or kNone
  std::vector<std::byte> goals;       // one after the other
};

}  // namespace tandem::rl
