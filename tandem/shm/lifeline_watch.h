// shm/lifeline_watch.h: how the ranks of a host notice that a rank is gone, and how they call it.
//
// Each rank has a lifeline, a pair of connected sockets: the rank holds one end, and all other ranks hold the other
// end. When the rank dies, the kernel closes its end, and the others' end hangs up at once, whatever the rank was
// doing. A byte that is written to the others' end is a call. (A child that a rank forks without exec also holds the
// rank's own end, and so hides the rank's death.) A thread sleeps until a lifeline hangs up or a call comes.
//
// Threads: the callbacks run on the watching thread, `on_end` once for each peer; call() and hang_up() may be called
// from any thread. The destructor ends the thread and joins it.
#pragma once
#include <functional>
#include <vector>

#include "tandem/base/descriptor.h"
#include "tandem/concurrency/worker.h"

namespace tandem::shm {

struct Lifeline {
  Descriptor own, others;  // the end of the rank itself, and the end that all other ranks hold
};

/// Makes a pair of connected sockets. Throws RunError when the system refuses.
[[nodiscard]] Lifeline make_lifeline();

/// Calls the rank at the other end. Does nothing when the rank is gone, or has left many calls unanswered.
void call(const Descriptor& others);

/// The thread exists from the constructor to the destructor.
class LifelineWatch {
 public:
  /// Watches those of the peers' lifelines that are open. `on_end` gets the index of a lifeline that hung up. `on_call`
  /// is called when a peer that is still there has called this rank; the end of the last peer is no call.
  LifelineWatch(Descriptor own, std::vector<Descriptor> peers, std::function<void(int)> on_end,
                std::function<void()> on_call);

  /// Never blocks.
  void call(int peer) const { shm::call(peers_[static_cast<std::size_t>(peer)]); }
  /// Makes the other ranks notice as if this rank had died, which wakes them.
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
