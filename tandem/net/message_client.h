// net/message_client.h: asks a MessageServer of another member of the run, one request at a time.
//
// The server is told the client's deadline and answers with an error of its own at that time. The client waits a second
// longer, so that the server's error, which knows more, comes first.
//
// Threads: one; hang_up() may be called from any. Blocking: the constructor and call() wait for the server until
// `limits`. Errors of call(): the exception of the server's function, or the one that the server told all members;
// PeerLost with the server's number when the server is gone; DeadlineExceeded when it did not answer; GroupAborted at a
// stop request. After any error but the server's own the client is of no further use, and the server takes this member
// for lost.
#pragma once
#include <string>

#include "tandem/net/connection.h"

namespace tandem::net {

/// How to reach a server, and what to call it.
struct ServerAddress {
  std::string contact;  // MessageServer::contact()
  int member = 0;       // its number in the run
  std::string name;     // its name in messages
};

class MessageClient {
 public:
  /// Connects to the server. `member` is the number of the member that asks.
  MessageClient(const ServerAddress& server, int member, const Limits& limits);

  /// Sends a request of `parts`, one after the other, and returns the answer.
  [[nodiscard]] Message call(std::uint32_t kind, std::span<const Bytes> parts, const Limits& limits);
  /// The two halves of call(), for a caller that has work to do in between. ask() returns when the system has taken the
  /// request.
  void ask(std::uint32_t kind, std::span<const Bytes> parts, const Limits& limits);
  [[nodiscard]] Message await_answer(const Limits& limits);
  /// Ends the present call and all later ones.
  void hang_up() { connection_.hang_up(); }

 private:
  template <typename Step>
  Message attempt(const Step& step);
  [[noreturn]] void throw_farewell_or_rethrow();

  Connection connection_;
};

}  // namespace tandem::net
