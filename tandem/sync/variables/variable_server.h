// sync/variable_server.h: lets replicas of other processes use shared variables, and ends everybody's waits when one of
// them dies.
//
// Each connection has a thread of its own, on which its requests are served one after the other. The failure of the
// variables, from whatever replica, is told to all connections, so that waits elsewhere end with the same error. The
// end of a connection is the loss of its replica, unless that has left.
//
// Threads: constructed and destroyed by one. Waits for no replica; the destructor joins the threads of the connections,
// whose waits it ends.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/net/message_server.h"
#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

/// Functions by which a Succession answers and hears in place of the variables. Called on the server's threads.
struct ServerHooks {
  /// The answer to a request that is not of a replica to the variables, else nothing.
  std::function<std::optional<net::Message>(int member, const net::Message& request, const Limits& limits)> answer{};
  /// Called in place of VariableService::lose(). The member may be none of the replicas.
  std::function<void(int member, const std::exception_ptr& why)> lose{};
};

class VariableServer {
 public:
  /// `names`: of all replicas of the run, for messages. A replica whose connection ends before it has left makes the
  /// variables fail with PeerLost. Whatever they fail with is told to all.
  VariableServer(std::shared_ptr<VariableService> variables, std::vector<std::string> names, ServerHooks hooks = {});

  ~VariableServer();

  [[nodiscard]] const std::string& contact() const { return server_.contact(); }
  /// Lets nobody in any more; see MessageServer.
  void shut_door() { server_.shut_door(); }

 private:
  [[nodiscard]] net::Message serve(int replica, const net::Message& request, const Limits& limits);
  void lose(int member, const std::string& how);
  void exchange(int replica, const net::Message& request, const Limits& limits, const VariableService::Read& read);

  const std::shared_ptr<VariableService> variables_;
  const std::vector<std::string> names_;
  const ServerHooks hooks_;
  std::vector<model::FlatParameters::Gradients> gradients_;  // one set a replica
  net::MessageServer server_;                                // last: its threads use the others
};

}  // namespace tandem::sync
