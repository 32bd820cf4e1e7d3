#include "tandem/pipeline/inline_stages.h"

#include "tandem/base/rethrow.h"

namespace tandem::pipeline {

Progress InlineStages::round() {
  bool all_ended = true, made = false;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Progress progress = step(i);
    made = made || progress == Progress::kMade;
    all_ended = all_ended && ended_[i] != 0;
  }
  if (all_ended) return Progress::kEnded;
  return made ? Progress::kMade : Progress::kNone;
}

// A stage that ends now has made progress: its end may let others go on.
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
