// base/testing/free_port.h: a port for a server that a test starts a moment later.
//
// Threads: single-thread.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tandem/base/check.h"
#include "tandem/base/descriptor.h"

namespace tandem {

/// Below the ports that the system gives to who asks for any (from 32768, net.ipv4.ip_local_port_range), so nobody gets
/// it in between; other tests at the same time look in other places.
inline int free_port() {
  constexpr int kFirst = 10'000, kCount = 19'000, kStride = 31;
  static int next = 0;
  for (; next < kCount; ++next) {
    const int port = kFirst + (::getpid() % kCount * kStride + next) % kCount;
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) continue;
    ++next;
    return port;
  }
  TANDEM_CHECK(false, "no port from ", kFirst, " to ", kFirst + kCount - 1, " is free");
  return 0;
}

}  // namespace tandem
