// shm/socket.h: abstract Unix sockets that carry one message of bytes and descriptors. Their names are no files, belong
// to the network namespace, and are gone when the listener is closed.
//
// Threads: single-thread. Blocking: each wait ends at the limits, with DeadlineExceeded or GroupAborted; peers that
// hang up end it with RunError. Only processes of the same user are talked to.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/limits.h"

namespace tandem::shm {

/// Waits until one of the descriptors can be read, or its other end hung up; returns its index. `what` is what was
/// waited for, for the message when it does not come to that.
std::size_t await_readable(std::span<const int> descriptors, const Limits& limits, const std::string& what);

/// Listens at `name`. Throws RunError when somebody does already.
[[nodiscard]] Descriptor listen_at(const std::string& name, int backlog);
/// The next connection; await_readable() says when there is one. Not open when it came from another user.
[[nodiscard]] Descriptor accept_from(const Descriptor& listener);
/// Connects to whoever listens at `name`, as soon as somebody does.
[[nodiscard]] Descriptor connect_to(const std::string& name, const Limits& limits);

/// Never blocks: a message fits the socket's buffer. False when the other end has hung up.
[[nodiscard]] bool send(const Descriptor& socket, std::span<const std::byte> message, std::span<const int> descriptors);

/// Fills `message` from what can be read and returns the descriptors that came with it. False through `whole` when the
/// other end hung up or sent another length.
struct Received {
  bool whole = false;
  std::vector<Descriptor> descriptors;
};
[[nodiscard]] Received receive(const Descriptor& socket, std::span<std::byte> message);

}  // namespace tandem::shm
