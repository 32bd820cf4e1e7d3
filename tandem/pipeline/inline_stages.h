// pipeline/inline_stages.h: runs the stages of a pipeline on the caller's thread, in turn and always in the same order.
//
// It serves debugging, and tests as their oracle: the same stages as under StageThreads, with the same results every
// time.
//
// Threads: single-thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/pipeline/stage.h"

namespace tandem::pipeline {

/// The first `count` stages are alike and want the same room. The one that was held up first in a round goes first in
/// the next, before the others in a circle, so that none of them is left behind.
struct Turns {
  std::size_t count = 0;
  std::size_t first = 0;  // goes first in the first round; below `count`
};

/// Steps each stage with an expired deadline, so a stage that would have to wait returns kNone instead.
class InlineStages {
 public:
  /// Throws InvariantError when `turns` names more stages than there are. Nothing runs before the first round().
  explicit InlineStages(std::vector<Stage> stages, const Turns& turns = {});

  /// Lets every stage that has not ended make one step, in their order; no stage waits for anything. Returns kNone when
  /// no stage could go on, so none will until the caller changes something, and kEnded when all have ended. Throws what
  /// a stage throws, with the stage's name.
  Progress round();

 private:
  // Maps a place in the round to a stage: the first `count` places rotate, the others are fixed.
  [[nodiscard]] std::size_t at_place(std::size_t place) const {
    return place < turns_.count ? (turns_.first + place) % turns_.count : place;
  }
  Progress step(std::size_t index);

  const std::vector<Stage> stages_;
  // One flag per stage. Bytes instead of bool, since std::vector<bool> packs its elements.
  std::vector<std::uint8_t> ended_;
  Turns turns_;
};

}  // namespace tandem::pipeline
