// fuzz/socket_pair.h: two connected sockets within the process, through which a target sends what the fuzzer made.
#pragma once
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <span>

#include "tandem/base/descriptor.h"

namespace tandem {

struct SocketPair {
  Descriptor ours, theirs;  // theirs: of the code that is fuzzed

  SocketPair() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
    ours = Descriptor(ends[0]);
    theirs = Descriptor(ends[1]);
  }
  /// Sends the bytes, as long as the socket takes them: some hundred kilobytes, where nobody reads.
  void send(std::span<const std::byte> bytes) const {
    (void)::send(ours.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
};

/// Calls `use` with the bytes in pieces, one after the other. The first byte says how long they are.
template <typename Use>
void in_pieces(std::span<const std::byte> bytes, const Use& use) {
  if (bytes.empty()) return;
  const std::size_t length = 1 + std::to_integer<std::size_t>(bytes.front()) * 16;
  for (bytes = bytes.subspan(1); !bytes.empty(); bytes = bytes.subspan(std::min(length, bytes.size())))
    use(bytes.first(std::min(length, bytes.size())));
}

}  // namespace tandem
