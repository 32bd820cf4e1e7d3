// net/poll_until.h: waits on sockets until limits end it. Internal.
//
// Threads: all.
#pragma once
#include <poll.h>

#include <span>
#include <string>

#include "tandem/concurrency/limits.h"

namespace tandem::net {

/// Waits until one of `sockets` has an event, which is then in its `revents`. Throws DeadlineExceeded or GroupAborted
/// that name `what` was waited for.
void poll_until(std::span<pollfd> sockets, const Limits& limits, const std::string& what);

}  // namespace tandem::net
