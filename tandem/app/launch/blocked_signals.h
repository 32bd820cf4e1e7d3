// app/launch/blocked_signals.h: what a fork needs so that no handler of the parent ever runs in the child.
//
//   const BlockedSignals blocked;
//   if (::fork() == 0) {
//     reset_signals();
//     ...
//
// Between fork() and exec() a child shares the parent's handlers, which would write into the parent's pipes. Threads:
// each object belongs to the thread that made it.
#pragma once
#include <csignal>

namespace tandem::app {

/// Holds back all signals to the calling thread while it lives.
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

}  // namespace tandem::app
