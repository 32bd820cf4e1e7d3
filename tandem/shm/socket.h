// shm/socket.h: abstract Unix sockets that carry messages of bytes and descriptors. Their names are no files; they
// belong to the network namespace, and are gone when the listener is closed.
//
// Security: only processes of the same user are accepted.
// Threads: single-thread. Blocking: await_readable() and connect_to(), until the limits.
// Errors: DeadlineExceeded, GroupAborted at a stop request, and RunError when the system refuses.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/limits.h"

namespace tandem::shm {

/// Waits until one of the descriptors can be read, or its other end has hung up, and returns its index. `what` names in
/// messages the thing waited for.
std::size_t await_readable(std::span<const int> descriptors, const Limits& limits, const std::string& what);

/// Listens at `name`. Throws RunError when another process does already.
[[nodiscard]] Descriptor listen_at(const std::string& name, int backlog);
/// Returns the next connection; await_readable() says when there is one. The result is not open when the connection
/// came from another user.
[[nodiscard]] Descriptor accept_from(const Descriptor& listener);
/// Connects to the process that listens at `name`, and waits until one does.
[[nodiscard]] Descriptor connect_to(const std::string& name, const Limits& limits);

/// Sends a message. Never blocks, since a message fits the socket's buffer. Returns false when the other end has hung
/// up.
[[nodiscard]] bool send(const Descriptor& socket, std::span<const std::byte> message, std::span<const int> descriptors);

/// A message that came: its descriptors, and whether it had the expected length. `whole` is false when the other end
/// hung up or sent another length.
struct Received {
  bool whole = false;
  std::vector<Descriptor> descriptors;
};
/// Fills `message` from the next message and returns the rest of it. Does not wait.
[[nodiscard]] Received receive(const Descriptor& socket, std::span<std::byte> message);

}  // namespace tandem::shm
