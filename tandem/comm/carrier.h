// comm/carrier.h: the thread that carries all_reduces of a layered group's member on while the member's own does
// something else: the sum inside, that between the leaders, and its result back. Internal.
//
// The leader says how many have been started, and all sum those inside one after the other; he says so again whenever
// the leaders have exchanged one, before its result is handed round, so that the wire has the next to carry meanwhile.
// So all members do the same operations inside in the same order, whoever starts sooner. While nothing is started the
// thread leaves both groups alone, so that the member may use them when it has waited for all.
//
// Threads: start() and wait() belong to the member. Blocking: wait(); who waits there brings the deadline, and what
// ends it closes the groups. The destructor closes them if collectives are under way.
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

  /// Starts to replace `flat` by its sum over all members. Throws what ended earlier ones.
  std::uint64_t start(const at::Tensor& flat);
  /// Returns when the result is in place. In the order of the starts.
  void wait(std::uint64_t ticket, const Limits& limits);
  [[nodiscard]] bool all_waited() const;

 private:
  struct Started {
    at::Tensor flat;
    std::unique_ptr<c10::Event> ready;  // when the member's stream has written it, if that is on a device
  };
  // Summed inside.
  struct Carried {
    at::Tensor flat;
    std::optional<Pending> between;  // the leader's
  };
  WaitOutcome await_done(std::uint64_t ticket, const std::stop_token& stop, const Deadline& deadline);
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
  std::deque<Carried> carried_;  // from done_ to summed_; this and the next belong to the thread
  std::uint64_t summed_ = 0;
  Worker worker_;  // last: it uses the others
};

}  // namespace tandem::comm
