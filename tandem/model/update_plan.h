// model/update_plan.h: which calls make one update of neighbouring parameters of a flat buffer.
//
// Neighbours of one group that were updated equally often, as far as the rule cares, go through the same calls. How
// they are cut does not change the numbers (update_rules.h). A plan may be of a part of the buffer that begins or ends
// within a parameter.
//
// Internal to Optimizer. Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/model/optimizer.h"
#include "tandem/model/update_rules.h"

namespace tandem::model {

struct BufferState;  // optimizer_state.h

/// Slots begin .. end-1 of a flat buffer.
struct Slots {
  std::size_t begin = 0, end = 0;
};
/// The slots of which `elements` has some, or some of the gap behind them.
[[nodiscard]] Slots slots_in(const FlatBuffer& buffer, const Elements& elements);
/// A slot and the gap behind it.
[[nodiscard]] Elements extent_of(const FlatBuffer& buffer, std::size_t slot);

/// Neighbouring parameters of one group that are updated by the same calls.
struct Run {
  std::size_t first_slot = 0;
  int group = 0;
  std::vector<Stretch> stretches;    // no longer than the scratch for scaled gradients
  std::vector<at::Tensor> unscaled;  // the gradients of each, as they came
  std::vector<Elements> elements;    // of each, in the flat buffer
};

class UpdatePlan {
 public:
  /// A plan for these elements of `buffer`.
  UpdatePlan(const FlatBuffer& buffer, const Elements& elements);

  /// Makes the runs for the slots that are `present` (by slot of the buffer) and gradients in `flat`. Does nothing when
  /// the last runs were made for the same cuts and the same memory.
  void make(const BufferState& state, const std::vector<OptimizerOptions>& rules, std::span<const char> present,
            const at::Tensor& flat);
  [[nodiscard]] std::vector<Run>& runs() { return runs_; }

 private:
  enum Cut : char { kAbsent, kStarts, kContinues };
  void cut(const BufferState& state, const std::vector<OptimizerOptions>& rules, std::span<const char> present);
  void make_runs(const BufferState& state, const at::Tensor& flat);

  const Elements elements_;
  const Slots slots_;
  // A Cut for each slot: as it is wanted now, and as it was when the runs were made.
  std::vector<char> wanted_, made_;
  // The memory of the gradients that the runs were made for.
  const void* gradients_ = nullptr;
  std::vector<Run> runs_;
};

}  // namespace tandem::model
