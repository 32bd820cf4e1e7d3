// app/launch/signals.h: the signals of the launcher, and those of the processes that it forks.
//
// Threads: single-thread.
#pragma once
#include <csignal>
#include <optional>

#include "tandem/base/descriptor.h"

namespace tandem::app {

/// Holds back all signals to the calling thread while it lives, so that no handler of the parent ever runs in a child:
/// between fork() and exec() a child shares the parent's handlers, which would write into the parent's pipes.
///
///   const BlockedSignals blocked;
///   if (::fork() == 0) {
///     reset_signals();
///     ...
///
/// Each object belongs to the thread that made it.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// In the child: every signal does what it does by default, also those that the parent ignores, and none is held back.
/// It makes system calls only, so it is safe after a fork of a program with threads.
inline void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

/// The signals that the launcher gets, as something that poll() can wait for. Taken over until the object is destroyed:
/// SIGINT, SIGTERM, SIGUSR1, SIGUSR2, and SIGHUP unless it is ignored (nohup). Signals wait in a pipe in the order in
/// which they came. One object at a time in a process (InvariantError).
class SignalInbox {
 public:
  /// Throws RunError when the system refuses.
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Readable when next() has something.
  [[nodiscard]] int descriptor() const { return reader_.get(); }
  /// The number of the next signal. Never waits.
  [[nodiscard]] std::optional<int> next();

 private:
  Descriptor reader_, writer_;
};

}  // namespace tandem::app
