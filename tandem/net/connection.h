// net/connection.h: one end of a connection that carries messages between two members of a run.
//
// A message is a header (its size, kind and patience) and bytes. Both ends run the same build on machines of the same
// byte order, so headers travel as they lie in memory.
//
// Threads: one may send while another one receives; hang_up() may be called from any.
// Blocking: send() and receive() wait for the other end until `limits`.
// Errors: PeerLost with the peer's number when the other end hung up or died, DeadlineExceeded when the deadline
// passed, GroupAborted at a stop request. After any exception the connection is of no further use, since half a message
// may have gone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/concurrency/limits.h"
#include "tandem/net/stream.h"

namespace tandem::net {

using Bytes = std::span<const std::byte>;

/// One message as it was received.
struct Message {
  std::uint32_t kind = 0;      // the users of the connection give it a meaning
  std::int64_t patience = -1;  // milliseconds that the sender will wait for an answer; negative for no limit
  std::vector<std::byte> bytes{};
};

/// Gathers the messages of one stream as their bytes come, for a thread that serves many. `most_bytes`: of one message;
/// who sends a larger one is not believed.
class Inbox {
 public:
  explicit Inbox(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Reads what is there, without waiting. Returns false when the other end is gone, or sent something that is no
  /// message, or too large a one.
  [[nodiscard]] bool read_from(Stream& stream);
  /// The next message that is whole, in the order in which they came.
  [[nodiscard]] std::optional<Message> next();

 private:
  const std::size_t most_bytes_;
  std::vector<std::byte> bytes_;  // received, and not yet taken
};
/// The bytes of a message, as they travel.
[[nodiscard]] std::vector<std::byte> bytes_of(const Message& message);

class Connection {
 public:
  /// Takes over a connected stream. `peer` and `name` stand for the other end in errors: "replica 0 (process 7 on
  /// alpha)".
  Connection(Stream stream, int peer, std::string name);

  /// Sends one message, whose bytes are `parts` one after the other. Returns when the system has taken all of it.
  void send(std::uint32_t kind, std::int64_t patience, std::span<const Bytes> parts, const Limits& limits);
  /// Waits for the next message and returns it.
  [[nodiscard]] Message receive(const Limits& limits);

  /// Ends the waits of both ends, present and later ones.
  void hang_up();

  [[nodiscard]] int peer() const { return peer_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  void send_all(std::span<Bytes> parts, const Limits& limits);
  void receive_all(std::span<std::byte> into, const Limits& limits);
  [[noreturn]] void lose(const std::string& how) const;

  Stream stream_;
  const int peer_;
  const std::string name_;
};

// Exceptions travel in a message from a server to a client. The kind of error survives the way if it is one that a
// client treats in its own way: PeerLost, DeadlineExceeded and GroupAborted. Any other arrives as a RunError.

/// The Message::kind of an answer that carries a failure. Users of a connection use other kinds.
inline constexpr std::uint32_t kFailure = 0xFFFFFFFF;
/// The Message::kind of a failure that answers no request and is the last message: the server serves no more.
inline constexpr std::uint32_t kFarewell = 0xFFFFFFFE;

/// Makes the message of an exception.
[[nodiscard]] Message failure_message(const std::exception& error, std::uint32_t kind = kFailure);
/// Throws the exception of a message that failure_message() made.
[[noreturn]] void throw_failure(const Message& message);

}  // namespace tandem::net
