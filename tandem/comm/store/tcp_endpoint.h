// comm/tcp_endpoint.h: the sockets of the store, with errors that say what to do: listening, and waiting until somebody
// listens.
//
// Threads: all.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "tandem/base/descriptor.h"
#include "tandem/base/mutex.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/concurrency/limits.h"

namespace tandem::comm {

/// Who may connect.
enum class Reach { kThisHost, kEverywhere };

struct Listener {
  Descriptor socket;
  int port = 0;
};

/// Listens on `port`, or on a free one when it is zero. Throws RunError when the port is in use.
[[nodiscard]] Listener listen_on(int port, Reach reach);

/// Waits until somebody listens at the endpoint, and returns the address that answered, as a number. Throws
/// DeadlineExceeded with the last cause (no such host, refused, no answer), or GroupAborted when stopped. The look-up
/// of a name may take longer than the limits allow.
[[nodiscard]] std::string await_listener(const Endpoint& endpoint, const Limits& limits);

/// The address of this host on the way to `address`, a number: that of the interface which packets there leave by.
/// Nothing is sent. `address` itself when the system does not say.
[[nodiscard]] std::string own_address_towards(const std::string& address);

/// The turn of one thread of this process to connect; the others wait for theirs until it is destroyed. Who hosts takes
/// it before listening: who connects to it needs answers in a turn of their own.
class ConnectTurn {
 public:
  ConnectTurn();
  ConnectTurn(const ConnectTurn&) = delete;
  ConnectTurn& operator=(const ConnectTurn&) = delete;

 private:
  MutexLock lock_;
};

/// Calls `connect`, which may open connections to that address (a number) in ways that cannot be told a limit. Cuts
/// them when it does not return within the limit; afterwards each fails when a send or a receive takes longer.
void limit_replies(const ConnectTurn& turn, const Endpoint& endpoint, std::chrono::milliseconds limit,
                   const std::function<void()>& connect);

}  // namespace tandem::comm
