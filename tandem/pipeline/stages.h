// pipeline/stages.h: the parts of a pipeline that run by themselves (rollout workers, loaders, the learner), and who
// runs them.
//
// A stage is a step that is repeated until it has ended. Whoever runs the stage decides how long a step may wait:
// StageThreads gives every stage a thread and waits as long as it takes; InlineStages runs all on one thread and waits
// for nothing. Both run the same steps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/worker.h"

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
  // Called once after kEnded, on the stage's thread; not after a failure or a stop.
  std::function<void()> ended = [] {};
  // The longest that a call of the user's code may last in a step (stall_watch.h). The runners do not look.
  Clock::duration limit = Clock::duration::max();
};

/// The first `count` stages are alike and want the same room. The one that was held up first in a round goes first in
/// the next, before the others in a circle, so that none of them is left behind.
struct Turns {
  std::size_t count = 0;
  std::size_t first = 0;  // goes first in the first round; below `count`
};

/// Runs the stages on the caller's thread, in turn and always in the same order: for debugging, and for tests as their
/// oracle. Each is stepped with an expired deadline, so a stage that would have to wait returns kNone instead.
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

/// Runs every stage once, on a thread of its own. The first that fails stops the others. What the stages refer to
/// outlives this object.
///
/// Threads: token() and stop() may be called from any thread; the rest belongs to the owner. Blocking: a step waits as
/// long as its stop token lets it. join() ends at its deadline. The destructor stops and waits for all threads,
/// whatever they do: a step must return soon after a stop.
class StageThreads {
 public:
  /// Starts the threads. Throws RunError when the system has no thread to give.
  explicit StageThreads(std::vector<Stage> stages);
  ~StageThreads() { stop(); }

  /// Stopped when any stage failed, or by stop().
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }
  /// Every stage ends after its present step, with its work left where it is.
  void stop() { stop_.request_stop(); }

  /// Waits until all stages have returned, and rethrows the failure to report. At the deadline: stops them and throws
  /// HungThread, which names those that still run and tells the failure.
  void join(const Deadline& deadline);
  /// Stops all stages because of `why`, and throws: DeadlineExceeded when they have returned by the deadline, else
  /// HungThread that names those that have not. A failure of a stage comes before `why`.
  [[noreturn]] void fail(const std::string& why, const Deadline& deadline);

 private:
  // The body of one thread.
  void run(std::size_t index);
  // Waits until all stages have returned. Returns the names of those that have not at the deadline.
  [[nodiscard]] std::vector<std::string> await_return(const Deadline& deadline);
  [[noreturn]] void fail_hung(const std::string& why, const std::vector<std::string>& late) const;

  const std::vector<Stage> stages_;
  std::stop_source stop_;
  Failures failures_;
  Mutex mutex_;
  CondVar returned_;
  // One flag per stage, and how many of them are set.
  std::vector<std::uint8_t> is_running_ TANDEM_GUARDED_BY(mutex_);
  std::size_t left_ TANDEM_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Worker>> workers_;  // last: joined before what they use is gone
};

}  // namespace tandem::pipeline
