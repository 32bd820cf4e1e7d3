// net/message_client.h: asks a MessageServer of another member of the run, one request at a time.
//
// Threads: one; hang_up() from any. Blocking: the constructor and call() wait for the server until `limits`.
// Errors of call(): what the server's function threw, or what it told all; PeerLost with the server's number when it is
// gone; DeadlineExceeded when it did not answer within a second after the deadline, which it is told, so that its own
// error, which knows more, comes first; GroupAborted when stopped. After any error but the server's the client is of no
// further use, and the server takes this member for lost.
#pragma once
#include <memory>
#include <string>

#include "tandem/net/connection.h"

namespace tandem::net {

struct ServerAddress {
  std::string contact;  // MessageServer::contact()
  int member = 0;       // its number, and a name for messages
  std::string name;
};

class MessageClient {
 public:
  /// Connects. `member`: who asks.
  MessageClient(const ServerAddress& server, int member, const Limits& limits);

  [[nodiscard]] Message call(std::uint32_t kind, std::span<const Bytes> parts, const Limits& limits);
  /// The same in two, for who has something to do meanwhile: ask() returns when the system has taken the request.
  void ask(std::uint32_t kind, std::span<const Bytes> parts, const Limits& limits);
  [[nodiscard]] Message await_answer(const Limits& limits);
  /// Ends this member's part, now and later.
  void hang_up() { connection_.hang_up(); }

 private:
  template <typename Step>
  Message attempt(const Step& step);
  [[noreturn]] void throw_farewell_or_rethrow();

  Connection connection_;
};

}  // namespace tandem::net
