// pipeline/inline_stages.h: runs the stages of a pipeline on the caller's thread, in turn and always in the same order.
//
// For debugging and as the oracle of tests: the same stages as under StageThreads, with the same results every time.
//
// Threads: single-thread.
#pragma once
#include <vector>

#include "tandem/pipeline/stage.h"

namespace tandem::pipeline {

class InlineStages {
 public:
  explicit InlineStages(std::vector<Stage> stages) : stages_(std::move(stages)), ended_(stages_.size(), 0) {}

  /// Lets every stage that has not ended make one step, in their order, none waiting for anything. kNone: none of them
  /// could, so none will until the caller changes something; kEnded: all have ended. Throws what a stage throws, with
  /// the stage's name.
  Progress round();

 private:
  Progress step(std::size_t index);

  const std::vector<Stage> stages_;
  std::vector<std::uint8_t> ended_;
};

}  // namespace tandem::pipeline
