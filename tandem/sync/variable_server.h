// sync/variable_server.h: lets replicas of other processes use shared variables, and ends everybody's waits when one of
// them dies.
//
// Threads: constructed and destroyed by one. Waits for nobody.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/net/message_server.h"
#include "tandem/sync/shared_variables.h"

namespace tandem::sync {

class VariableServer {
 public:
  /// `names`: of all replicas of the run, for messages. A replica whose connection ends before it has left makes the
  /// variables fail with PeerLost. Whatever they fail with is told to all.
  VariableServer(std::shared_ptr<SharedVariables> variables, std::vector<std::string> names);

  ~VariableServer();

  [[nodiscard]] const std::string& contact() const { return server_.contact(); }

 private:
  [[nodiscard]] net::Message serve(int replica, const net::Message& request, const Limits& limits);

  const std::shared_ptr<SharedVariables> variables_;
  const std::vector<std::string> names_;
  std::vector<model::FlatParameters::Gradients> gradients_;  // one set a replica
  net::MessageServer server_;                                // last: its threads use the others
};

}  // namespace tandem::sync
