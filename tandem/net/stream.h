// net/stream.h: the bytes between two members of a run, as they are or encrypted (net/tls.h), over a socket that does
// not block.
//
// Threads: one may read while another one writes. Blocking: nothing here waits. Errors: as those of recv() and send(),
// in errno; EBADMSG for bytes that were changed on their way.
#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "tandem/base/descriptor.h"
#include "tandem/net/tls.h"

namespace tandem::net {

class Stream {
 public:
  Stream() = default;
  explicit Stream(Descriptor socket, std::unique_ptr<Tls> tls = nullptr)
      : tls_(std::move(tls)), socket_(std::move(socket)) {}

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  /// The socket's number, to wait for it. An encrypted stream may have bytes that the socket has no more: read before
  /// waiting.
  [[nodiscard]] int number() const { return socket_.get(); }
  [[nodiscard]] bool is_encrypted() const { return tls_ != nullptr; }

  /// Returns how many bytes were read, zero when the other end has hung up, -1 with EAGAIN when none have come.
  [[nodiscard]] ssize_t read(std::span<std::byte> into);
  /// Takes a beginning of the parts' bytes, and returns its size; -1 with EAGAIN when there is no room. Then the next
  /// call begins with the same bytes, and offers no fewer.
  [[nodiscard]] ssize_t write(std::span<const iovec> parts);
  [[nodiscard]] ssize_t write(std::span<const std::byte> bytes);

 private:
  std::unique_ptr<Tls> tls_;
  Descriptor socket_;
};

}  // namespace tandem::net
