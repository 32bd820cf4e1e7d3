// comm/links/peer_wire.h: starts to send and to receive bytes over a c10d backend. Internal to comm/links/peer_links.
//
// Threads: any; operations are started one at a time. Ownership: the memory of an operation must live until its work is
// done or cut() has returned. Blocking: only while another thread starts an operation. Errors: those of the backend
// when a peer is gone; no thread gets SIGPIPE.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tandem/base/mutex.h"

namespace tandem::comm {

/// Blocks SIGPIPE in this thread for its scope, and discards a SIGPIPE that came meanwhile. Gloo writes with writev(2),
/// which raises the signal in the writing thread when the peer is gone. Threads that are started in the scope inherit
/// the mask.
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

/// An operation that was started; null if there is none.
using C10dWork = c10::intrusive_ptr<c10d::Work>;

/// The connections of one member to all others. This class alone knows how bytes travel.
class PeerWire {
 public:
  explicit PeerWire(c10::intrusive_ptr<c10d::Backend> backend);

  /// Separates messages from payloads. Bytes that are sent with a tag are received with that tag, in the same order.
  enum class Tag : std::uint8_t { kMessages, kPayloads };
  /// Start to send and to receive `bytes`; throw if the peer is gone already.
  [[nodiscard]] C10dWork send(int peer, const void* from, std::size_t bytes, Tag tag);
  [[nodiscard]] C10dWork receive(int peer, void* to, std::size_t bytes, Tag tag);
  /// Closes the connections. No other call may run at the same time or follow.
  void cut() noexcept;

 private:
  Mutex starting_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

}  // namespace tandem::comm
