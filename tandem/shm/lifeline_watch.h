// shm/lifeline_watch.h: a thread that sleeps until a peer's lifeline hangs up, because its process died or left the
// group, or until a peer calls this rank.
//
// Threads: the callbacks run on the watching thread, the first once per peer; call() and hang_up() from any. The
// destructor ends the thread and joins it.
#pragma once
#include <functional>
#include <vector>

#include "tandem/concurrency/worker.h"
#include "tandem/shm/lifeline.h"

namespace tandem::shm {

class LifelineWatch {
 public:
  /// Of the peers' lifelines, those that are open are watched; `on_end` gets the index of one that hung up. `on_call`:
  /// a peer that is still there called this rank; that the last one hung up is no call.
  LifelineWatch(Descriptor own, std::vector<Descriptor> peers, std::function<void(int)> on_end,
                std::function<void()> on_call);

  void call(int peer) const { shm::call(peers_[static_cast<std::size_t>(peer)]); }
  /// To the others it is as if this rank died: they wake.
  void hang_up() const { shm::hang_up(own_); }

 private:
  void watch(const std::stop_token& stop);

  const Descriptor own_;
  const std::vector<Descriptor> peers_;
  const std::function<void(int)> on_end_;
  const std::function<void()> on_call_;
  const Descriptor stopped_;  // an eventfd
  Worker worker_;             // last: it uses the others
};

}  // namespace tandem::shm
