// shm/lifeline_watch.h: how the ranks of a host see that a rank is gone, and call it: a pair of connected sockets for
// each rank, and a thread that sleeps until one of the others' hangs up, or until a peer calls this rank.
//
// When the end that all others hold hangs up, the rank has died, or has hung up itself. (A child that it forks without
// exec would hold its own end too, and hide the death.) A byte that is written there is a call.
//
// Threads: the callbacks run on the watching thread, the first once per peer; call() and hang_up() from any. The
// destructor ends the thread and joins it.
#pragma once
#include <functional>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/worker.h"

namespace tandem::shm {

struct Lifeline {
  Descriptor own, others;
};

[[nodiscard]] Lifeline make_lifeline();

/// Calls the rank at the other end. One that is gone, or has not answered many calls, is not called.
void call(const Descriptor& others);

class LifelineWatch {
 public:
  /// Of the peers' lifelines, those that are open are watched; `on_end` gets the index of one that hung up. `on_call`:
  /// a peer that is still there called this rank; that the last one hung up is no call.
  LifelineWatch(Descriptor own, std::vector<Descriptor> peers, std::function<void(int)> on_end,
                std::function<void()> on_call);

  void call(int peer) const { shm::call(peers_[static_cast<std::size_t>(peer)]); }
  /// To the others it is as if this rank died: they wake.
  void hang_up() const;

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
