// net/message_server.h: answers requests of the other members of a run.
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

  MessageServer(Serve serve, Lost lost);
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

}  // namespace tandem::net
