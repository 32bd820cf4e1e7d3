// comm/store/store_server.h: answers the questions of other processes to a store of this one. Two threads, however many
// members there are: one lets them in (net/door.h), and one answers.
//
// Threads: one constructs and destroys it. Blocking: the destructor waits for no member; their connections end. Errors:
// a question that cannot be answered is answered with its failure; who sends something that is no question is cut off.
#pragma once
#include <memory>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/base/mutex.h"
#include "tandem/comm/store/store_map.h"
#include "tandem/concurrency/worker.h"
#include "tandem/net/connection.h"
#include "tandem/net/door.h"

namespace tandem::comm {

class StoreServer {
 public:
  /// Throws RunError when the door cannot be opened (Door).
  StoreServer(std::shared_ptr<StoreMap> values, net::DoorOptions door);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  [[nodiscard]] const net::Place& place() const { return door_.place(); }

 private:
  struct Client;
  void let_in(const std::stop_token& stop);
  void answer_all(const std::stop_token& stop);
  void take_new(std::vector<std::unique_ptr<Client>>& clients);
  [[nodiscard]] net::Message answer_to(const net::Message& question);
  [[nodiscard]] bool serve(Client& client);

  const std::shared_ptr<StoreMap> values_;
  net::Door door_;
  const Descriptor wake_;  // an eventfd: somebody was let in, or it is time to end
  Mutex mutex_;
  std::vector<net::Stream> let_in_ TANDEM_GUARDED_BY(mutex_);  // not yet seen by the thread that answers
  Worker answerer_, doorkeeper_;                               // last
};

}  // namespace tandem::comm
