// base/forked_signals.h: signals between fork() and exec(), where a child shares the handlers of its parent.
//
//   const BlockedSignals blocked;
//   if (::fork() == 0) {
//     reset_signals();
//     ...
//
// Threads: a BlockedSignals belongs to the thread that made it. Errors: none.
#pragma once
#include <csignal>

namespace tandem {

/// Holds back all signals to the calling thread while it lives, so that no handler of the parent ever runs in a child:
/// it would write into the parent's pipes.
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
/// Only a SIGHUP that is ignored stays so: nohup asks for it. It makes system calls only, so it is safe after a fork of
/// a program with threads.
inline void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (number != SIGHUP || before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace tandem
