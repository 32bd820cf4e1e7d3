// net/sockets.h: where members of a run are reached, and the sockets for it: an abstract Unix socket within a host,
// which is no file and belongs to the network namespace, and TCP between hosts.
//
// Security: of an abstract socket the system says who made the other end, so only processes of the same user are let in
// or talked to. Over TCP that is the greeting's task (net/greeting.h).
//
// Threads: all. Blocking: nothing here waits, but look_up() asks the system's resolver for names, which takes as long
// as that takes. Errors: see each function.
#pragma once
#include <string>
#include <vector>

#include "tandem/base/descriptor.h"

namespace tandem::net {

/// Which processes may reach a door: those of this host (of the same user and network namespace), or of any host.
enum class Reach { kThisHost, kEverywhere };

/// Whether what travels between two members over TCP is encrypted (net/tls.h).
enum class Traffic { kOpen, kEncrypted };

/// What a door is for. Within a host nothing is encrypted: nobody else hears it.
struct Access {
  Access(Reach from, Traffic passing = Traffic::kOpen)  // NOLINT(google-explicit-constructor): mostly it is only that
      : reach(from), traffic(from == Reach::kThisHost ? Traffic::kOpen : passing) {}
  Reach reach;
  Traffic traffic;
};

/// Where a door is.
struct Place {
  std::string local{};                   // the name of the abstract socket, at most 100 bytes; empty for TCP
  std::vector<std::string> addresses{};  // of the door's host, as numbers
  int port = 0;
};

/// The addresses of this host that others may reach, and those of its loopback.
[[nodiscard]] std::vector<std::string> own_addresses();
/// The address of an interface of this host, or `network` itself if it is an address of this host. Throws ConfigError
/// when it is neither.
[[nodiscard]] std::string address_on(const std::string& network);
/// The numeric addresses of a host. Empty where there are none, with the reason in `why`.
[[nodiscard]] std::vector<std::string> look_up(const std::string& host, std::string& why);
/// Whether the address, a number, is one that never leaves this host.
[[nodiscard]] bool is_loopback(const std::string& address);

/// A socket that listens, without waiting for anybody; not open, with the reason in errno, where that cannot be.
[[nodiscard]] Descriptor listen_locally(const std::string& name);
/// Likewise on a TCP port of all addresses, of IPv6 and IPv4, or of one address; on a free one for port zero.
[[nodiscard]] Descriptor listen_to_all(int port);
[[nodiscard]] Descriptor listen_to(const std::string& address, int port);
[[nodiscard]] int port_of(const Descriptor& socket);

/// Begins to connect. Not open, with the reason in errno, where that failed at once.
[[nodiscard]] Descriptor start_locally(const std::string& name);
[[nodiscard]] Descriptor start_to(const std::string& address, int port);

/// Whether the other end may be talked to: of an abstract socket, whether the same user made it. True for TCP.
[[nodiscard]] bool is_of_this_user(const Descriptor& socket);
/// Who is at the other end, for messages: "process 7 of user 65534", "10.0.0.9:4711".
[[nodiscard]] std::string peer_of(const Descriptor& socket);

}  // namespace tandem::net
