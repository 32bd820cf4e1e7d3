// net/message_server.h: answers requests of the other members of a run, each on a thread of its own.
//
// A second thread a member listens, so a member that dies is noticed at once, also while its request is being served:
// the stop token of that request's limits is then requested, and `lost` called. A member that connects again takes the
// place of its former connection, whose loss is told before.
//
// Threads: constructed and destroyed by one; `serve` and `lost` are called on the server's threads, for different
// members at the same time. Blocking: nothing here waits for a member; the destructor cuts all connections.
// Errors: what `serve` throws is thrown by the member's MessageClient::call(), unless it is GroupAborted because the
// server ends: then the connection ends unanswered, and call() throws PeerLost.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tandem/net/connection.h"

namespace tandem::net {

class MessageServer {
 public:
  /// The answer to `request`. `limits`: the member waits no longer, or is gone.
  using Serve = std::function<Message(int member, const Message& request, const Limits& limits)>;
  /// The member's connection has ended; `how` tells.
  using Lost = std::function<void(int member, const std::string& how)>;

  MessageServer(Serve serve, Lost lost);
  ~MessageServer();

  /// Tells all members that the run has failed: what they ask now, or later, throws this. Never waits: one that is
  /// just being answered is passed over. Threads: all, also from `lost`.
  void tell_all(const std::exception& why);

  /// Lets in nobody who dials after this has returned: they are told at once that there is no one. Who is in, or just
  /// being let in, stays. Waits for nobody. Threads: all.
  void shut_door();

  /// For MessageClient, by whatever way reaches the others.
  [[nodiscard]] const std::string& contact() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::net
