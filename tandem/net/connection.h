// net/connection.h: one end of a TCP connection that carries messages between two members of a run.
//
// Threads: one that sends and one that receives, at the same time; hang_up() from any. Blocking: send() and receive()
// wait for the other end until `limits`. Errors: PeerLost with the peer's number when the other end hung up or died,
// DeadlineExceeded when a limit passed, GroupAborted when stopped. After any throw the connection is of no further use.
// Both ends run the same build on machines of the same byte order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/limits.h"

namespace tandem::net {

using Bytes = std::span<const std::byte>;

struct Message {
  std::uint32_t kind = 0;      // the meaning is the users'
  std::int64_t patience = -1;  // milliseconds that the sender will wait for an answer; negative: no limit
  std::vector<std::byte> bytes{};
};

class Connection {
 public:
  /// `peer` and `name` tell the other end in errors: "replica 0 (process 7 on alpha)".
  Connection(Descriptor socket, int peer, std::string name);

  /// One message of `parts` one after the other. Returns when the system has taken all of it.
  void send(std::uint32_t kind, std::int64_t patience, std::span<const Bytes> parts, const Limits& limits);
  [[nodiscard]] Message receive(const Limits& limits);

  /// Ends the waits of both ends, now and later.
  void hang_up();

  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  void send_all(std::span<Bytes> parts, const Limits& limits);
  void receive_all(std::span<std::byte> into, const Limits& limits);
  [[noreturn]] void lose(const std::string& how) const;

  const Descriptor socket_;
  const int peer_;
  const std::string name_;
};

}  // namespace tandem::net
