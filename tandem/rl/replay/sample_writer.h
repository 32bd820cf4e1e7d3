// rl/replay/sample_writer.h: writes rows that were drawn into the caller's arrays: n-step returns, observations with
// their stacks, new goals, masks.
//
// Threads: single-thread. It keeps its memory between draws.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/replay/drawn_rows.h"
#include "tandem/rl/replay/goal_relabelling.h"
#include "tandem/rl/replay/n_step.h"
#include "tandem/rl/replay/replay_part.h"
#include "tandem/rl/replay/step_store.h"

namespace tandem::rl {

class SampleWriter {
 public:
  SampleWriter(const Spec& spec, const ReplayOptions& options);

  /// The rows' windows must be complete. `random`: for the goals of hindsight.
  void write(const StepStore& store, std::span<const DrawnRow> rows, Philox& random, const SampleArrays& into);

 private:
  // In this order.
  void read_windows(const StepStore& store, std::span<const DrawnRow> rows);
  void sum_windows(std::size_t rows);
  void write_numbers(const StepStore& store, std::span<const DrawnRow> rows, const SampleArrays& into) const;
  void write_observations(const StepStore& store, std::span<const DrawnRow> rows, const SampleArrays& into) const;
  void write_goals(std::size_t bytes, std::byte* into) const;

  const std::int64_t n_step_;
  const double gamma_;
  std::optional<GoalRelabelling> relabelling_;
  DrawnWindows windows_;
  std::vector<NStepReturn> sums_;  // by row
};

}  // namespace tandem::rl
