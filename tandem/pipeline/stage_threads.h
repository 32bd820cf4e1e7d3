// pipeline/stage_threads.h: runs every stage of a pipeline on a thread of its own.
//
// The first stage that fails stops the others; the failure that is reported carries the stage's name. What the stages
// refer to outlives this object.
//
// Threads: token() and stop() may be called from any thread; the rest belongs to the owner.
// Blocking: a stage's step waits as long as its stop token lets it. join() ends at its deadline. The destructor stops
// and waits for all threads, whatever they do: a step must return soon after a stop.
#pragma once
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/worker.h"
#include "tandem/pipeline/stage.h"

namespace tandem::pipeline {

/// The number of stages is fixed by the constructor, and each stage runs once: there is no restart.
class StageThreads {
 public:
  /// Starts the threads. A stop of `parent` stops them. Throws RunError when the system has no thread to give.
  explicit StageThreads(std::vector<Stage> stages, const std::stop_token& parent = {});

  /// Stopped when any stage failed, or by stop().
  [[nodiscard]] std::stop_token token() const { return group_.token(); }
  /// Every stage ends after its present step, with its work left where it is.
  void stop() { group_.request_stop(); }

  /// Waits until all stages have returned, and rethrows the failure to report. At the deadline: stops them and throws
  /// HungThread, which names those that still run and tells the failure.
  void join(const Deadline& deadline);
  /// Stops all stages because of `why`, and throws: DeadlineExceeded when they have returned by the deadline, else
  /// HungThread that names those that have not. A failure of a stage comes before `why`.
  [[noreturn]] void fail(const std::string& why, const Deadline& deadline);

 private:
  // The body of one thread.
  void run(std::size_t index, const std::stop_token& stop);
  [[nodiscard]] bool await_return(const Deadline& deadline);
  [[noreturn]] void fail_hung(const std::string& why) const;
  // The names of the stages that have not returned, separated by commas.
  [[nodiscard]] std::string running() const;

  const std::vector<Stage> stages_;
  mutable Mutex mutex_;
  CondVar returned_;
  // One flag per stage, and how many of them are set.
  std::vector<std::uint8_t> is_running_ TANDEM_GUARDED_BY(mutex_);
  std::size_t left_ TANDEM_GUARDED_BY(mutex_);
  WorkerGroup group_;  // last: joined before what its threads use is gone
};

}  // namespace tandem::pipeline
