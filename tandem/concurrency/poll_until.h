// concurrency/poll_until.h: waits for what other processes do: for events of sockets, or for a while.
//
//   pollfd wait{socket.get(), POLLIN, 0};
//   poll_until({&wait, 1}, limits, "an answer of rank 2");
//
// Threads: all. Each call of poll_until() makes an eventfd when it can be stopped, so it is for waits that are expected
// to block. Try the operation without blocking first.
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

/// Blocks for `span`, or until `limits` end the wait. For polling another process, which cannot wake this thread.
void pause(Clock::duration span, const Limits& limits);

}  // namespace tandem
