// net/message_server.h: answers requests of the other members of a run; and the client that asks.
//
// Each member has two threads of the server: one answers its requests, one after the other, and one listens. So the
// death of a member is noticed at once, also while its request is being served: the stop token of the request's limits
// is then requested, and `lost` is called. A member that connects again replaces its former connection; the loss of
// that is told first. One more thread accepts connections. Why these are threads and no event loop:
// docs/decisions/0047.
//
// Threads: one constructs and destroys the server. `serve` and `lost` are called on the server's threads, for different
// members at the same time. Blocking: nothing here waits for a member; the destructor cuts all connections.
// Errors: an exception of `serve` is thrown by the member's MessageClient::call(). There is one exception: when `serve`
// throws GroupAborted because the server ends, the connection ends without an answer, and call() throws PeerLost.
#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/worker.h"
#include "tandem/net/connection.h"
#include "tandem/net/contact.h"

namespace tandem::net {

class MessageServer {
 public:
  /// Returns the answer to `request`. `limits` end when the member waits no longer, or is gone.
  using Serve = std::function<Message(int member, const Message& request, const Limits& limits)>;
  /// Called when the member's connection has ended; `how` says how.
  using Lost = std::function<void(int member, const std::string& how)>;

  /// `access`: where the members are. Throws RunError when the system has no socket to give.
  MessageServer(Access access, Serve serve, Lost lost);
  ~MessageServer();

  /// Tells all members that the run has failed: their present and later calls throw `why`. Never waits: a member that
  /// is just being answered is told by the thread that answers. Threads: all, also from `lost`.
  void tell_all(const std::exception& why);

  /// Accepts no more connections: a member that dials after this call fails at once. Members that are connected, or are
  /// just being accepted, stay. Waits for nobody. Threads: all.
  void shut_door();

  /// The text with which a MessageClient reaches this server.
  [[nodiscard]] const std::string& contact() const { return listener_.contact(); }

 private:
  class ServedMember;  // a connection and its two threads
  void let_in(const std::stop_token& stop);

  const Serve serve_;
  const Lost lost_;
  Listener listener_;
  Mutex mutex_;
  bool is_ending_ TANDEM_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<ServedMember>> members_;  // changed by the door's thread with the lock
  Worker door_;                                         // last
};

/// How to reach a server, and what to call it.
struct ServerAddress {
  std::string contact;  // MessageServer::contact()
  int member = 0;       // its number in the run
  std::string name;     // its name in messages
};

/// Asks a MessageServer of another member of the run, one request at a time. The server is told the client's deadline
/// and answers with an error of its own at that time. The client waits a second longer, so that the server's error,
/// which knows more, comes first.
///
/// Threads: one; hang_up() may be called from any. Blocking: the constructor and call() wait for the server until
/// `limits`. Errors of call(): the exception of the server's function, or the one that the server told all members;
/// PeerLost with the server's number when the server is gone; DeadlineExceeded when it did not answer; GroupAborted at
/// a stop request. After any error but the server's own the client is of no further use, and the server takes this
/// member for lost.
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
