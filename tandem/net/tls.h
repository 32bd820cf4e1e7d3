// net/tls.h: encrypts what two members of a run say to each other.
//
// Both ends have proved by the greeting (net/greeting.h) that they know the door's secret. They go on with TLS 1.3
// (RFC 8446, by OpenSSL), with a key that both made of the secret and the greeting's random numbers, and with an
// exchange of X25519: who learns the secret later cannot read what he recorded. There are no certificates: the secret
// says already who belongs to the run (docs/decisions/0058).
//
// Threads: one may read while another one writes. Blocking: nothing here waits. Errors: as those of recv() and send(),
// in errno; EBADMSG for bytes that were changed on their way.
#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tandem/base/digest/sha256.h"

namespace tandem::net {

/// TLS over one connection, whose socket does not block and stays the caller's.
class Tls {
 public:
  enum class Role { kDoor, kCaller };
  /// After so many bytes in one direction the key changes: AES-GCM must not encrypt more than some 2^38 with one (RFC
  /// 8446, 5.5).
  static constexpr std::uint64_t kBytesAKey = std::uint64_t{1} << 37;
  /// `key`: of this connection alone. Throws RunError when OpenSSL cannot serve, and says why.
  Tls(int socket, const Sha256::Digest& key, Role role, std::uint64_t bytes_a_key = kBytesAKey);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  enum class Handshake { kPending, kDone, kFailed };
  /// Goes on as far as the bytes that have come allow; while it is pending the other end has to speak.
  [[nodiscard]] Handshake shake_hands();
  [[nodiscard]] ssize_t read(std::span<std::byte> into);
  [[nodiscard]] ssize_t write(std::span<const iovec> parts);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::net
