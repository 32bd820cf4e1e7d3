// concurrency/poll_until.h: waits for events of sockets until limits end the wait.
//
//   pollfd wait{socket.get(), POLLIN, 0};
//   poll_until({&wait, 1}, limits, "an answer of rank 2");
//
// Threads: all. Each call makes an eventfd when it can be stopped, so it is for waits that are expected to block. Try
// the operation without blocking first.
#pragma once
#include <poll.h>

#include <span>
#include <string>

#include "tandem/concurrency/limits.h"

namespace tandem {

/// Waits until one of `sockets` has an event, which is then in its `revents`. An event wins over a limit that has
/// passed. Throws DeadlineExceeded or GroupAborted, with `what` as the thing waited for, and RunError when the system
/// refuses.
void poll_until(std::span<pollfd> sockets, const Limits& limits, const std::string& what);

}  // namespace tandem
