// shm/lifeline_watch.h: a thread that sleeps until a peer's lifeline hangs up: its process died, or left the group.
//
// Threads: the callback runs on the watching thread, once per peer. The destructor ends the thread and joins it.
#pragma once
#include <functional>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/worker.h"

namespace tandem::shm {

class LifelineWatch {
 public:
  /// Watches the reading ends that are open; `on_end` gets the index of one that hung up.
  LifelineWatch(std::vector<Descriptor> lifelines, std::function<void(int)> on_end);

 private:
  void watch(const std::stop_token& stop);

  std::vector<Descriptor> lifelines_;
  const std::function<void(int)> on_end_;
  const Descriptor stopped_;  // an eventfd
  Worker worker_;             // last: it uses the others
};

}  // namespace tandem::shm
