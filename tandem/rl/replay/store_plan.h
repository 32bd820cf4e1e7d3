// rl/replay/store_plan.h: where everything of a replay part lies: the arrays of a step and of an episode's last
// observation, and the sizes of the rings that hold them. It follows from the spec and the options alone.
//
// A part takes plan.steps.bytes() + plan.ends.bytes() of memory. Threads: immutable.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/replay/record_ring.h"
#include "tandem/rl/replay/replay_options.h"

namespace tandem::rl {

/// One leaf on its way in and out: environments give `given_bytes` a row, of which `frame_bytes` are stored, and a draw
/// shows shown_bytes().
struct StoredLeaf {
  Leaf shown;                   // as sample() writes it: float32 where it is narrowed
  std::size_t given_bytes = 0;  // of a row, as environments write it
  std::size_t frame_bytes = 0;  // of a row, as it is stored: one frame
  std::size_t frames = 1;
  StackPadding padding = StackPadding::kFirst;
  std::vector<std::byte> zero_frame;  // of stacks that are padded with zeros
  bool is_narrowed = false;

  /// Whether frames are shared between steps.
  [[nodiscard]] bool is_stack() const { return frames > 1; }
  [[nodiscard]] std::size_t shown_bytes() const { return frames * frame_bytes; }
};

/// Columns of a step, [environments, ...] each: the leaves come first, in the order of the spec. Columns of an end: the
/// leaves, and the number of the row.
struct StorePlan {
  /// Throws ConfigError with all option_faults().
  StorePlan(const Spec& spec, int envs, const ReplayOptions& options);

  std::int64_t envs = 0;
  /// In the order of the spec.
  std::vector<StoredLeaf> leaves;
  /// Whether actions are int64; else they are float32.
  bool is_discrete = false;
  /// Bytes of a row's action, and of its mask: 0 where there are no masks.
  std::size_t action_bytes = 0, mask_bytes = 0;
  /// Columns of a step, behind the leaves; the reward is a float64, the flags a byte (n_step.h).
  std::size_t action = 0, reward = 0, flags = 0, mask = 0;
  /// The column of an end behind the leaves: the number of its row, an int64.
  std::size_t end_row = 0;
  /// Steps and ends that are held as long as there are so many.
  std::int64_t steps_held = 0, ends_held = 0;
  /// Steps before the oldest one that is drawn, which stacks may reach back to.
  std::int64_t margin = 0;
  /// One of the steps is the present one, which has no action yet.
  RingPlan steps, ends;
  /// Bytes of a row in all columns of a step.
  std::size_t row_bytes = 0;
};

}  // namespace tandem::rl
