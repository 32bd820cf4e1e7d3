// rl/replay/sample_writer.h: writes rows that were drawn into the caller's arrays: n-step returns, observations with
// their stacks, new goals, masks.
//
// A draw is read in passes over all rows, so that each pass finds what it reads in the cache: the first one reads
// rewards and ends, and meanwhile asks for the memory of everything else a few rows ahead.
//
// Threads: single-thread. It keeps its memory between draws. Errors: ConfigError for arrays that the spec does not
// have.
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
  /// Options that have no option_faults().
  SampleWriter(const Spec& spec, const ReplayOptions& options);

  /// Writes all that `into` wants, of rows whose windows are complete: their n_step steps are in the store. `random`:
  /// for the goals of hindsight, which are drawn row by row. `scale`: of each reward that is summed.
  void write(const StepStore& store, std::span<const DrawnRow> rows, Philox& random, const ClippedScale& scale,
             const SampleArrays& into);

 private:
  // What write() does, in this order. Rewards and ends of all windows are read first,
  void read_windows(const StepStore& store, std::span<const DrawnRow> rows);
  // then summed, when hindsight has changed them.
  void sum_windows(std::size_t rows, const ClippedScale& scale);
  // The rest goes into the caller's arrays.
  void write_numbers(const StepStore& store, std::span<const DrawnRow> rows, const SampleArrays& into) const;
  void write_observations(const StepStore& store, std::span<const DrawnRow> rows, const SampleArrays& into) const;
  // Puts the new goals into the rows of the leaf that they replace.
  void write_goals(std::size_t bytes, std::byte* into) const;

  const std::int64_t n_step_;
  const double gamma_;
  std::optional<GoalRelabelling> relabelling_;
  DrawnWindows windows_;
  std::vector<NStepReturn> sums_;  // by row
};

}  // namespace tandem::rl
