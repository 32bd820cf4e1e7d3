// pipeline/stage.h: one part of a pipeline that runs by itself: a rollout worker, a loader, the learner.
//
// A stage is a step that is repeated until it has ended. Whoever runs the stage decides how long a step may wait:
// StageThreads gives every stage a thread and waits as long as it takes; InlineStages runs all on one thread and waits
// for nothing. Both run the same steps.
//
// Threads: a stage's functions are called on its own thread, or inline on the owner's.
#pragma once
#include <functional>
#include <string>

#include "tandem/concurrency/limits.h"

namespace tandem::pipeline {

/// The outcome of one step of a stage.
enum class Progress {
  kMade,   // something was done
  kNone,   // nothing could be done until the limits ended the wait
  kEnded,  // there is nothing more to do, ever
};

/// A failure is an exception thrown by `step` or `ended`; the runner adds the stage's name to the message.
struct Stage {
  std::string name;  // "loader 1": of its thread, and in its errors
  std::function<Progress(const Limits&)> step;
  std::function<void()> ended = [] {
  };  // called once after kEnded, on the stage's thread; not after a failure or a stop
};

}  // namespace tandem::pipeline
