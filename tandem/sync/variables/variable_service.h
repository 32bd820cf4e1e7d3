// sync/variable_service.h: the shared variables of a run: parameters and optimizer state that all its replicas update,
// in the memory of one process. Says what replicas may ask of them, and how the failure of one replica ends the waits
// of all.
//
// An update and a read exclude each other as a whole, so no replica sees a tensor half-written, nor tensors of two
// versions. Values and optimizer state have the layout of a replica's, and lie on the CPU. Replicas of other processes
// reach the variables through variable_link.h.
//
// Threads: all members from any thread, a replica's calls one at a time. Blocking: exchange(), resume(), depart() and
// await_departed(), until `limits`, with DeadlineExceeded naming the replicas that are waited for, or GroupAborted when
// stopped. A wait spins before it sleeps, where there are cores for all replicas and that has helped lately. After
// fail() every call throws what it was given.
#pragma once
#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/spin.h"
#include "tandem/sync/mean/mean_of_sums.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"

namespace tandem::sync {

/// A gradient that a replica offers.
struct Offer {
  int replica = 0;
  double scale = 1;          // by which the gradients, which are sums, are multiplied
  double learning_rate = 0;  // of group 0, before the factor
  double lr_factor = 1;
  Tally tally{};  // what was counted with the sums
};

/// A replica's own counts, which it tells variables that have taken over from those of a dead process.
struct Recalled {
  std::int64_t offered = 0;    // gradients, an unanswered one included
  std::int64_t dropped = 0;    // of them, as far as the replica was told
  bool is_unanswered = false;  // whether the last offer got no answer
};

/// The values, one tensor a flat buffer; the live ones. With `optimizer`, its state behind them.
[[nodiscard]] std::vector<at::Tensor> values_of(const model::FlatParameters& parameters);
[[nodiscard]] std::vector<at::Tensor> state_of(const model::FlatParameters& parameters,
                                               const model::Optimizer& optimizer);
[[nodiscard]] inline std::vector<at::Tensor> state_of(Replica& replica) {
  return state_of(replica.parameters(), replica.optimizer());
}
/// Copies tensor by tensor; `to` may have more.
void copy_all(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to);

class VariableService {
 public:
  virtual ~VariableService() = default;

  /// Is told the fate of the offer, in a report whose `step` counts the steps that were made by then, and shown the
  /// values, one tensor a flat buffer, which do not change until it returns.
  using Read = std::function<void(const StepReport&, const std::vector<at::Tensor>& values)>;
  /// A replica's step: offers the gradient (null: none), waits until the replica may begin its next step, and calls
  /// `read`. Until exchange() returns, the variables may change what is in the gradient's memory.
  virtual void exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients, const Limits& limits,
                        const Read& read) = 0;
  /// The replica is about to wait for all others by other means. No replica waits for it here until all do so.
  virtual void rest(int replica) = 0;
  /// Called by replica 0 when all rest and hold the newest values: from now on none is ahead of the others.
  virtual void end_rest() = 0;
  /// Waits until the replica may begin its first step, or its next one after a rest. Brings back a replica that has
  /// left or died, where the strategy allows it. Calls `read` unless the replica holds the values already.
  virtual void resume(int replica, const Limits& limits, const Read& read) = 0;
  /// No replica waits for this one any more.
  virtual void leave(int replica) = 0;
  /// Called by a replica whose former variables died and from which these have taken over. Returns what became of its
  /// last gradient, kLost if nobody can know. Throws InvariantError where variables cannot take over.
  [[nodiscard]] virtual StepReport recall(int replica, const Recalled& told);

  using ReadState = std::function<void(const std::vector<at::Tensor>& state)>;
  /// Leaves, waits until all have left, and shows the values, the optimizer's state, and what else the variables keep;
  /// none of them changes until `read` returns. The replica counts as one that still reads until let_go() or lose().
  void depart(int replica, const Limits& limits, const ReadState& read);
  void let_go(int replica);
  /// Waits until all have left and none of them still reads: the variables may be destroyed.
  void await_departed(const Limits& limits);

  /// Returns the counts of each replica's gradients since load(), and the sizes of the steps since the last call.
  [[nodiscard]] virtual GradientAccount take_account() = 0;

  /// Takes the values and optimizer state of a replica, and what the variables keep besides, unless that is empty;
  /// counts begin anew.
  void load(Replica& from, const model::NamedTensors& besides = {});
  /// Gives them to it.
  void store(Replica& to, const model::NamedTensors& besides = {});

  /// The replica's process is gone. Fails the run with `why`, unless the replica has left or rests, or the others go on
  /// without it.
  virtual void lose(int replica, const std::exception_ptr& why);
  /// From now on every call throws `why`, and all waits end. The first reason stays.
  void fail(const std::exception_ptr& why);
  /// Has `failed` called with the first failure, on the thread that brings it. An empty function ends that;
  /// on_failure() returns when no call is under way.
  using Failed = std::function<void(const std::exception_ptr& why)>;
  void on_failure(Failed failed) {
    const MutexLock lock(telling_);
    failed_ = std::move(failed);
  }

  /// Gradient memory of this layout, on the CPU.
  [[nodiscard]] model::FlatParameters::Gradients make_gradients() const;
  [[nodiscard]] const std::vector<model::FlatBuffer>& layout() const { return parameters_.buffers(); }

 protected:
  /// Takes layout and optimizer from `like`, which is not kept.
  explicit VariableService(Replica& like);

  /// Called when the values have been loaded from `from`.
  virtual void start_anew(Replica& from) TANDEM_REQUIRES(mutex_) = 0;
  /// Whether the replica has not left, and whether it rests where a replica that rests is present.
  [[nodiscard]] virtual bool is_present(int replica) const TANDEM_REQUIRES(mutex_) = 0;
  [[nodiscard]] virtual bool is_resting(int /*replica*/) const TANDEM_REQUIRES(mutex_) { return false; }
  [[nodiscard]] std::vector<int> present() const TANDEM_REQUIRES(mutex_);
  /// The tensors that the variables keep besides values and optimizer state; the live ones.
  [[nodiscard]] virtual model::NamedTensors besides() TANDEM_REQUIRES(mutex_) { return {}; }
  /// The tensors that depart() shows: those of state_of(), and besides().
  [[nodiscard]] std::vector<at::Tensor> state() TANDEM_REQUIRES(mutex_);

  /// The replica has left and will still read what depart() shows.
  void expect_reader(int replica) TANDEM_REQUIRES(mutex_) { reading_.insert(replica); }
  /// Throws GroupAborted when `limits` are stopped. The last request of a replica may come when its death is known
  /// already; the stop of that request is requested before the death is told.
  static void require_alive(int replica, const Limits& limits);
  void require_whole() const TANDEM_REQUIRES(mutex_) {
    if (failure_) std::rethrow_exception(failure_);
  }
  /// Waits until `ready` or a failure. `who`: for the error.
  void wait_for(const std::function<bool()>& ready, const std::function<std::string()>& who, const Limits& limits)
      TANDEM_REQUIRES(mutex_);

  /// To be called when something has changed that others may wait for, without the lock.
  void tell_all() TANDEM_EXCLUDES(mutex_) {
    told_.fetch_add(1);
    changed_.notify_all();
  }

  const int replicas_;  // of the run
  mutable Mutex mutex_;
  // Values and optimizer are guarded by mutex_; the layout does not change.
  model::FlatParameters parameters_;
  model::Optimizer optimizer_;
  std::vector<at::Tensor> values_;  // of the parameters' buffers

 private:
  /// Spins for a while, in case the wait is over soon.
  void look_out(const std::function<bool()>& is_over) TANDEM_REQUIRES(mutex_);

  static constexpr int kMostSleeps = 64;
  const SpinBudget spin_;
  int sleeps_left_ TANDEM_GUARDED_BY(mutex_) = 0;        // next waits that sleep at once
  int sleeps_after_spin_ TANDEM_GUARDED_BY(mutex_) = 1;  // value of sleeps_left_ after the next spin in vain
  CondVar changed_;
  std::atomic<std::uint32_t> told_{0};               // calls of tell_all()
  std::set<int> reading_ TANDEM_GUARDED_BY(mutex_);  // between depart() and let_go()
  std::exception_ptr failure_ TANDEM_GUARDED_BY(mutex_);
  Mutex telling_;  // never taken while mutex_ is held
  Failed failed_ TANDEM_GUARDED_BY(telling_);
};

}  // namespace tandem::sync
