// Both ends of a connection over the loopback, for tests.
#pragma once
#include <sys/socket.h>

#include <memory>
#include <utility>

#include "tandem/net/sockets.h"
#include "tandem/net/stream.h"

namespace tandem::net {

inline std::pair<Descriptor, Descriptor> connected_sockets() {
  const Descriptor listener = listen_to_all(0);
  Descriptor one = start_to("127.0.0.1", port_of(listener));
  Descriptor other;
  while (!other.is_open())
    other = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  return {std::move(one), std::move(other)};
}

inline std::pair<Stream, Stream> connected(Traffic traffic) {
  auto [one, other] = connected_sockets();
  if (traffic == Traffic::kOpen) return {Stream(std::move(one)), Stream(std::move(other))};
  auto at_one = std::make_unique<Tls>(one.get(), Sha256::Digest{}, Tls::Role::kCaller);
  auto at_other = std::make_unique<Tls>(other.get(), Sha256::Digest{}, Tls::Role::kDoor);
  for (bool are_done = false; !are_done;) {
    const auto one_is = at_one->shake_hands(), other_is = at_other->shake_hands();
    are_done = one_is == Tls::Handshake::kDone && other_is == Tls::Handshake::kDone;
  }
  return {Stream(std::move(one), std::move(at_one)), Stream(std::move(other), std::move(at_other))};
}

}  // namespace tandem::net
