// comm/peer_wire.h: starts to send and receive bytes over a c10d backend. Internal to comm/peer_links.
//
// Threads: any; the backend starts one operation at a time. Blocking: nothing but for that. Errors: those of the
// backend, of a peer that is gone; whichever thread is first to write to one gets no signal of a broken pipe. What is
// sent or received into must live until the work is done, or the wire cut.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tandem/base/mutex.h"

namespace tandem::comm {

/// Blocks SIGPIPE in this thread for its scope, and takes away one that came meanwhile: Gloo writes with writev(2),
/// which raises the signal in the writing thread when the peer is gone. Threads that are started in the scope inherit
/// it.
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

using C10dWork = c10::intrusive_ptr<c10d::Work>;

class PeerWire {
 public:
  explicit PeerWire(c10::intrusive_ptr<c10d::Backend> backend);

  /// Between two members, what is sent with a tag is received with that tag in the same order.
  enum class Tag : std::uint8_t { kMessages, kPayloads };
  [[nodiscard]] C10dWork send(int peer, const void* from, std::size_t bytes, Tag tag);
  [[nodiscard]] C10dWork receive(int peer, void* to, std::size_t bytes, Tag tag);
  /// Closes the connections. No other call then, nor during it.
  void cut() noexcept;

 private:
  Mutex starting_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

}  // namespace tandem::comm
