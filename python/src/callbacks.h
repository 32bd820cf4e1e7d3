// python/src/callbacks.h: functions of a Python user that a run calls between two updates.
//
// An exception in one of them ends the run: as failed, or in order where it is none of Exception (KeyboardInterrupt,
// SystemExit). rethrow() gives it back to whoever called train(). False as an answer ends the run in order, and so do
// RunWishes.
//
// Threads: calls come from the thread that trains, which does not hold the interpreter's lock. Wishes may come from
// any. A copy of the process that a callback has forked, and that comes back from it, ends there: it has none of the
// run's threads.
#pragma once
#include <nanobind/nanobind.h>
#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <exception>
#include <functional>

#include "tandem/app/train/run_observer.h"

namespace tandem::python {

/// Each may be None: what nobody asks for costs nothing. Made and destroyed with the interpreter's lock held.
struct CallbackFunctions {
  nanobind::object on_update, on_episode, on_checkpoint;
};

/// What Python asks of a run; it is looked at after each update. A wish for a checkpoint is taken back when it is
/// granted.
struct RunWishes {
  std::atomic<bool> stop = false;
  std::atomic<bool> checkpoint = false;
  /// The run ends in order, to go on with other options.
  std::atomic<bool> change = false;
};

void bind_wishes(nanobind::module_& module);

class Callbacks {
 public:
  /// `wishes` outlives it. `interrupts`: what SIGINT does outside of runs, which it does again during calls; null:
  /// calls come from another thread than the interpreter's main one, where Python handles no signals.
  Callbacks(CallbackFunctions functions, RunWishes& wishes, const struct sigaction* interrupts);
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// Refers to this object.
  [[nodiscard]] app::RunObserver observer();
  /// Throws what a function has raised. With the interpreter's lock held.
  void rethrow() const;

 private:
  void call(const nanobind::object& function, const char* name, const std::function<nanobind::object()>& argument);

  [[nodiscard]] bool wants_stop() const { return wants_end_ || wishes_.stop || wishes_.change; }

  const CallbackFunctions functions_;
  RunWishes& wishes_;
  const struct sigaction* const interrupts_;
  const pid_t process_;
  bool wants_end_ = false;  // by an exception that is such a wish
  std::exception_ptr raised_;
};

}  // namespace tandem::python
