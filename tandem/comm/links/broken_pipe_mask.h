// comm/links/broken_pipe_mask.h: keeps a write of NCCL's to a peer that is gone from ending the process. Internal to
// comm/links.
//
// Threads: an object belongs to the thread that makes it.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <ctime>

namespace tandem::comm {

/// Blocks SIGPIPE in this thread for its scope, and discards a SIGPIPE that came meanwhile. Threads that are started in
/// the scope inherit the mask.
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
