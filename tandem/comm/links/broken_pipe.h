// comm/broken_pipe.h: keeps SIGPIPE from ending the process when c10d writes to a peer that is gone.
//
// Gloo writes with writev(2), which raises the signal in the writing thread. Threads that are started under a
// BrokenPipeMask inherit it.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace tandem::comm {

/// Blocks SIGPIPE in this thread for its scope, and takes away one that came meanwhile.
class BrokenPipeMask {
 public:
  BrokenPipeMask() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~BrokenPipeMask() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    (void)sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BrokenPipeMask(const BrokenPipeMask&) = delete;
  BrokenPipeMask& operator=(const BrokenPipeMask&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

}  // namespace tandem::comm
