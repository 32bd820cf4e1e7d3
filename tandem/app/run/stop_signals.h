// app/run/stop_signals.h: what a training is asked for by a signal, as a stop token; and putting its Slurm job back
// into the queue.
//
//   SIGINT (Ctrl-C), SIGTERM, SIGUSR2   a checkpoint, and end
//   SIGHUP (the terminal is gone)       the same, unless it is ignored from the start (nohup)
//   SIGUSR1                             a checkpoint, end, and be queued again (requeue_job())
//
// After Habitat's DD-PPO: `scancel --signal=USR2 JOB` ends a job without the time limit that a plain scancel sets, and
// `sbatch --signal=USR1@90` queues it again before its time is up. The run ends after its update. Only a SIGINT that
// comes 0.3 s after another signal, or later, ends the process at once, with code 130: schedulers and launchers repeat
// the others, and timeout(1) any.
//
// Threads: token() and asked() may be called from any thread. One object at a time in a process (InvariantError).
//
// Ownership: the object owns the pipe and the thread behind the handler. Blocking: the destructor waits for that
// thread, and so for a last act that is under way. A request is never taken back, and a stronger one replaces a weaker
// one.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "tandem/concurrency/worker.h"

namespace tandem::app {

/// In the order in which they prevail.
enum class StopRequest { kNone, kEnd, kRequeue };

class StopSignals {
 public:
  /// Takes over the signals until the object is destroyed. `last_act`: what is done before a SIGINT ends the process at
  /// once, on a thread of its own while the others go on; it throws nothing, and one more SIGINT does not wait for it.
  /// Throws RunError when the system refuses.
  explicit StopSignals(std::function<void()> last_act = {});
  /// Handlers of others are back afterwards; a signal that ended the process by default then does nothing: what it asks
  /// for is about to happen, and a process whose work is done must not look killed.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Requested soon after the first signal.
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
  /// The strongest request so far. It may be set an instant before the token is.
  [[nodiscard]] StopRequest asked() const;
  /// Number of the signal that came first; 0 before it.
  [[nodiscard]] int first() const;
  /// Takes the signals over again that something else in the process has taken over since. Returns their numbers. Call
  /// it now and then: a library that sets handlers of its own would keep a stop from the run. Costs five system calls.
  [[nodiscard]] std::vector<int> take_back() const;

 private:
  const std::function<void()> last_act_;
  std::stop_source source_;
  std::optional<Worker> listener_;  // last: it uses the others
};

/// The number of the signal that came first to the newest StopSignals of this process, which may be gone; 0: none came.
/// A process that does more than one run, such as an interpreter, handles it once more when the run has ended. From any
/// thread.
[[nodiscard]] int last_stop_signal();

enum class Requeued {
  kDone,
  kNotUnderSlurm,  // SLURM_JOB_ID is not set: there is no job
};

/// Puts the job of this process back into the queue: runs `scontrol requeue $SLURM_JOB_ID`, by PATH, and waits until it
/// has ended, at most for `patience`, then kills it. That variable alone decides whether there is a job. Slurm then
/// ends what is left of the job: call it last. Throws RunError when scontrol cannot be started, fails, or has not ended
/// within `patience`.
[[nodiscard]] Requeued requeue_job(std::chrono::milliseconds patience = std::chrono::seconds(20));

}  // namespace tandem::app
