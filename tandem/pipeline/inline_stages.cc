#include "tandem/pipeline/inline_stages.h"

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::pipeline {

InlineStages::InlineStages(std::vector<Stage> stages, const Turns& turns)
    : stages_(std::move(stages)), ended_(stages_.size(), 0), turns_(turns) {
  TANDEM_CHECK(turns.count <= stages_.size(), turns.count, " of ", stages_.size(), " stages take turns");
  TANDEM_CHECK(turns.first < turns.count || turns.first == 0, "stage ", turns.first, " takes no turns");
}

// The first stages (turns_.count of them) begin with the one whose turn it is; all others follow in their order. The
// stage that was held up first begins the next round.
Progress InlineStages::round() {
  bool all_ended = true, made = false;
  std::optional<std::size_t> held_up;
  for (std::size_t place = 0; place < stages_.size(); ++place) {
    const std::size_t index = at_place(place);
    const Progress progress = step(index);
    made = made || progress == Progress::kMade;
    all_ended = all_ended && ended_[index] != 0;
    if (place < turns_.count && progress == Progress::kNone && ended_[index] == 0 && !held_up) held_up = index;
  }
  // The circle keeps turning only when somebody was held up: with room for all, the order stays.
  if (held_up) turns_.first = *held_up;
  if (all_ended) return Progress::kEnded;
  return made ? Progress::kMade : Progress::kNone;
}

// Makes one step of a stage, without a wait. A stage that ends in it has made progress: its end may let others go on.
Progress InlineStages::step(std::size_t index) {
  if (ended_[index] != 0) return Progress::kNone;
  const Stage& stage = stages_[index];
  try {
    const Progress progress = stage.step({.deadline = Deadline::after(Clock::duration::zero()), .stop = {}});
    if (progress != Progress::kEnded) return progress;
    ended_[index] = 1;
    stage.ended();
    return Progress::kMade;
  } catch (...) {
    rethrow_with(stage.name + ": ");
  }
}

}  // namespace tandem::pipeline
