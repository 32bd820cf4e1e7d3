// comm/store/tcp_endpoint.h: the sockets of the store: listening, waiting for a server, and time limits on the
// connections that c10d opens. c10d's own errors and waits are replaced by errors that say what to do, and by waits
// that can be stopped.
//
// Threads: all. Blocking and errors: see each function.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "tandem/base/descriptor.h"
#include "tandem/base/mutex.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/concurrency/limits.h"

namespace tandem::comm {

/// Which hosts may connect: this host alone, over IPv4 loopback, or all, over IPv4 and IPv6.
enum class Reach { kThisHost, kEverywhere };

struct Listener {
  Descriptor socket;
  int port = 0;
};

/// Listens on `port`, or on a free port if `port` is zero. Throws RunError when the port is in use.
[[nodiscard]] Listener listen_on(int port, Reach reach);

/// Waits until a server listens at the endpoint, and returns the numeric address that answered. Throws DeadlineExceeded
/// with the last cause (no such host, refused, no answer), or GroupAborted when stopped. The look-up of a host name
/// cannot be interrupted and may take longer than `limits`.
[[nodiscard]] std::string await_listener(const Endpoint& endpoint, const Limits& limits);

/// The address of this host on the way to `address`, a number: that of the interface which packets there leave by.
/// Nothing is sent. `address` itself when the system does not say.
[[nodiscard]] std::string own_address_towards(const std::string& address);

/// The lock by which the threads of this process connect one after the other. A thread that hosts a store takes it
/// before it listens, so that no thread of this process connects to a server that does not answer yet.
[[nodiscard]] Mutex& connecting();

/// Calls `connect`, while the caller holds connecting(). It may open connections to the endpoint's numeric address
/// without a time limit (c10d's client). Shuts these connections down if `connect` does not return within `limit`. When
/// it has returned, every send and receive on them fails after `limit`.
void limit_replies(const MutexLock& turn, const Endpoint& endpoint, std::chrono::milliseconds limit,
                   const std::function<void()>& connect);

}  // namespace tandem::comm
