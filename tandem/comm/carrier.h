// comm/carrier.h: the thread that carries on the all_reduces of a layered group's member while the member's own thread
// does something else: the sum inside, the sum between the leaders, and the broadcast of its result inside. Internal.
//
// The thread of each member repeats these steps:
//   1. The leader broadcasts inside how many all_reduces it has started by now.
//   2. All members of the inner group sum these, one after the other; the leader starts the sum between the leaders of
//      each.
//   3. The leader waits until the oldest sum between the leaders is complete.
//   4. Step 1 and 2 again, so that the network is busy during the next step.
//   5. The leader broadcasts the oldest result inside.
// So all members do the same operations inside in the same order, whichever member starts its all_reduces first. While
// no all_reduce is under way the thread uses neither group: a member that has waited for all of its own may use them.
//
// Threads: start(), wait() and all_waited() belong to the member. Blocking: wait(). Its caller brings the limits; when
// they end the wait, the groups are closed. The destructor closes them if collectives are under way.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>

#include "tandem/base/mutex.h"
#include "tandem/comm/layers.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {

class Carrier {
 public:
  /// `layers` is not owned.
  explicit Carrier(Layers& layers);
  ~Carrier();
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  /// Starts to replace `flat` by its sum over all members, and returns a ticket for wait(). Throws the failure that
  /// ended an earlier all_reduce.
  std::uint64_t start(const at::Tensor& flat);
  /// Returns when the result is in place. Tickets are waited for in the order of the starts.
  void wait(std::uint64_t ticket, const Limits& limits);
  /// Whether the member has waited for all that it started.
  [[nodiscard]] bool all_waited() const;

 private:
  struct Started {
    at::Tensor flat;
    std::unique_ptr<c10::Event> ready;  // recorded on the member's stream after it wrote `flat`; null on the CPU
  };
  // An all_reduce that is summed inside and whose result has not been broadcast.
  struct Carried {
    at::Tensor flat;
    std::optional<Pending> between;  // the sum between the leaders; on the leader only
  };
  // Waits until `ticket` is done or the limits end the wait; throws the failure that ended the thread.
  WaitOutcome await_done(std::uint64_t ticket, const std::stop_token& stop, const Deadline& deadline);
  // The thread's body and its steps, as listed above.
  void carry_all(const std::stop_token& stop);
  bool sum_started(Layers::Phase phase, const std::stop_token& stop);
  void hand_round_first();
  std::optional<at::Tensor> await_started(std::uint64_t ticket, const std::stop_token& stop);

  Layers& layers_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Started> under_way_ TANDEM_GUARDED_BY(mutex_);  // from done_ to started_
  std::uint64_t started_ TANDEM_GUARDED_BY(mutex_) = 0, done_ TANDEM_GUARDED_BY(mutex_) = 0,
                         waited_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ TANDEM_GUARDED_BY(mutex_);
  std::deque<Carried> carried_;  // tickets done_ to summed_ - 1; this and summed_ belong to the carrier's thread
  std::uint64_t summed_ = 0;     // how many all_reduces are summed inside
  Worker worker_;                // last: it uses the others
};

}  // namespace tandem::comm
