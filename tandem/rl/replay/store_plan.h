// rl/replay/store_plan.h: where everything of a replay part lies: the arrays of a step and of an episode's last
// observation, and the sizes of the rings that hold them. It follows from the spec and the options alone.
//
// Threads: immutable.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/replay/record_ring.h"
#include "tandem/rl/replay/replay_options.h"

namespace tandem::rl {

/// One leaf on its way in and out.
struct StoredLeaf {
  Leaf shown;                   // as sample() writes it: float32 where it is narrowed
  std::size_t given_bytes = 0;  // of a row, as environments write it
  std::size_t frame_bytes = 0;  // of a row, as it is stored: one frame
  std::size_t frames = 1;
  StackPadding padding = StackPadding::kFirst;
  std::vector<std::byte> zero_frame;  // of stacks that are padded with zeros
  bool is_narrowed = false;

  [[nodiscard]] bool is_stack() const { return frames > 1; }
  [[nodiscard]] std::size_t shown_bytes() const { return frames * frame_bytes; }
};

/// Columns of a step, [environments, ...] each: the leaves come first, in the order of the spec. Columns of an end: the
/// leaves, and the number of the row.
struct StorePlan {
  /// Throws ConfigError with all option_faults().
  StorePlan(const Spec& spec, int envs, const ReplayOptions& options);

  std::int64_t envs = 0;
  std::vector<StoredLeaf> leaves;
  bool is_discrete = false;
  std::size_t action_bytes = 0;                             // of a row
  std::size_t mask_bytes = 0;                               // of a row; 0: no masks
  std::size_t action = 0, reward = 0, flags = 0, mask = 0;  // columns of a step
  std::size_t end_row = 0;                                  // column of an end
  /// Steps and ends that are held as long as there are so many.
  std::int64_t steps_held = 0, ends_held = 0;
  /// Steps before the oldest one that is drawn, which stacks may reach back to.
  std::int64_t margin = 0;
  RingPlan steps, ends;
  /// Bytes of a row in all columns of a step.
  std::size_t row_bytes = 0;
};

}  // namespace tandem::rl
