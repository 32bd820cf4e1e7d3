// sync/variable_service.h: parameters and optimizer state that all replicas of a run update, in the memory of one
// process: what replicas ask of them, and how a failure of one ends the waits of all.
//
// An update and a read exclude each other as a whole, so nobody sees a tensor half-written, nor tensors of two
// versions. Other processes reach them through variable_link.h.
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
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"
#include "tandem/concurrency/spin.h"
#include "tandem/sync/mean/shard_gradients.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"
#include "tandem/sync/variables/variable_home.h"

namespace tandem::sync {

/// A gradient that a replica offers.
struct Offer {
  int replica = 0;
  double scale = 1;          // of the gradients, which are sums
  double learning_rate = 0;  // of group 0, before the factor
  double lr_factor = 1;
  Tally tally{};  // what was counted with the sums
};

/// What became of it.
struct Outcome {
  Verdict verdict = Verdict::kApplied;
  std::int64_t staleness = 0;
  // Of the step that it is part of, where several gradients make up one:
  std::int64_t step = 0;       // made by the time that the values were read
  std::int64_t part_of = 0;    // that this offer is part of or, dropped, came too late for
  std::int64_t gradients = 1;  // that had come for it
  double weight = 0, loss = 0, grad_norm = 0;
  std::int64_t untouched = 0;  // parameters that none of them had a gradient for
};

/// What a replica says of itself to variables that have taken over from those which died.
struct Recalled {
  std::int64_t offered = 0;    // gradients, those of which nothing was heard too
  std::int64_t dropped = 0;    // of them, by what it was told
  bool is_unanswered = false;  // whether nothing was heard of the last one
};

class VariableService {
 public:
  virtual ~VariableService() = default;
  VariableService(const VariableService&) = delete;
  VariableService& operator=(const VariableService&) = delete;

  /// Told the outcome and shown the flat values, which do not change until it returns.
  using Read = std::function<void(const Outcome&, const std::vector<model::FlatBuffer>& values)>;
  /// A replica's step: offers the gradient (nullptr: none), waits until the replica may begin its next step, and calls
  /// `read`. Until it returns the gradient's memory is the variables', which may change what is in it.
  virtual void exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients, const Limits& limits,
                        const Read& read) = 0;
  /// The replica is about to wait for all others elsewhere: nobody waits for it here until all have come to that.
  virtual void rest(int replica) = 0;
  /// Replica 0's, when all rest and hold the values as they are: from now on they go on side by side.
  virtual void end_rest() = 0;
  /// Waits until the replica may begin its next step after a rest, or its first; one that has left or died is there
  /// again where the strategy lets it. Calls `read` unless it holds the values already.
  virtual void resume(int replica, const Limits& limits, const Read& read) = 0;
  /// Nobody waits for the replica any more.
  virtual void leave(int replica) = 0;
  /// The replica comes from variables that died, where these have taken over: what became of its last gradient, kLost
  /// if nobody can know. Throws InvariantError where variables cannot take over.
  [[nodiscard]] virtual Outcome recall(int replica, const Recalled& told);

  using ReadState = std::function<void(const std::vector<at::Tensor>& state)>;
  /// Leaves, waits until nobody is there any more, and shows the values, the optimizer's state, and what else the
  /// variables keep, which do not change until `read` returns. Until let_go() or lose() the replica counts as one that
  /// still reads.
  void depart(int replica, const Limits& limits, const ReadState& read);
  void let_go(int replica);
  /// Waits until all have left and none of them still reads: the variables may be destroyed.
  void await_departed(const Limits& limits);

  /// What became of each replica's gradients since load(), and the sizes of the steps since this was called last.
  [[nodiscard]] virtual GradientAccount take_account() = 0;

  /// Takes the values and optimizer state of a replica, and what the variables keep besides, unless that is empty;
  /// counts begin anew.
  void load(Replica& from, const model::NamedTensors& besides = {});
  /// Gives them to it.
  void store(Replica& to, const model::NamedTensors& besides = {});

  /// The replica is gone. Ends the run, unless it has left or rests, or the others go on without it. The first reason
  /// stays.
  virtual void lose(int replica, const std::exception_ptr& why);
  void fail(const std::exception_ptr& why);
  /// Called with the first failure, on the thread that brings it. An empty function ends the calls; returns when none
  /// is under way.
  using Failed = std::function<void(const std::exception_ptr& why)>;
  void on_failure(Failed failed);

  /// Gradient memory of this layout, on the CPU.
  [[nodiscard]] model::FlatParameters::Gradients make_gradients() const { return home_.make_gradients(); }
  [[nodiscard]] const std::vector<model::FlatBuffer>& layout() const { return home_.parameters().buffers(); }

 protected:
  /// Of the same layout and optimizer as `like`, which is not kept.
  explicit VariableService(Replica& like);

  /// After the values were loaded from `from`.
  virtual void start_anew(Replica& from) TANDEM_REQUIRES(mutex_) = 0;
  [[nodiscard]] virtual bool has_left(int replica) const TANDEM_REQUIRES(mutex_) = 0;

  /// Those that have not left, resting ones too.
  [[nodiscard]] virtual std::vector<int> present() const TANDEM_REQUIRES(mutex_) = 0;
  /// What the variables keep besides values and optimizer state, in place.
  [[nodiscard]] virtual model::NamedTensors besides() TANDEM_REQUIRES(mutex_) { return {}; }
  /// What depart() shows.
  [[nodiscard]] std::vector<at::Tensor> state() TANDEM_REQUIRES(mutex_);

  [[nodiscard]] bool has_failed() const TANDEM_REQUIRES(mutex_) { return failure_ != nullptr; }
  /// The replica has left and is still to read what depart() shows.
  void expect_reader(int replica) TANDEM_REQUIRES(mutex_) { reading_.insert(replica); }
  /// Of a replica whose process died the last request may come after its loss was told: its stop is requested before.
  static void require_alive(int replica, const Limits& limits);
  void require_whole() const TANDEM_REQUIRES(mutex_);
  /// Waits until `ready` or a failure. `who`: for the error.
  void wait_for(const std::function<bool()>& ready, const std::function<std::string()>& who, const Limits& limits)
      TANDEM_REQUIRES(mutex_);

  /// Something has changed that others may wait for. Not with the lock held.
  void tell_all() TANDEM_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  VariableHome home_;  // values and optimizer are guarded by mutex_, the layout does not change

 private:
  /// Spins for what is due soon.
  void look_out(const std::function<bool()>& is_over) TANDEM_REQUIRES(mutex_);

  static constexpr int kMostSleeps = 64;
  const SpinBudget spin_;
  int sleeps_left_ TANDEM_GUARDED_BY(mutex_) = 0;        // waits to come that do not spin
  int sleeps_after_spin_ TANDEM_GUARDED_BY(mutex_) = 1;  // that many after the next spin in vain
  CondVar changed_;
  std::atomic<std::uint32_t> told_{0};               // calls of tell_all()
  std::set<int> reading_ TANDEM_GUARDED_BY(mutex_);  // between depart() and let_go()
  std::exception_ptr failure_ TANDEM_GUARDED_BY(mutex_);
  Mutex telling_;  // never taken while mutex_ is held
  Failed failed_ TANDEM_GUARDED_BY(telling_);
};

}  // namespace tandem::sync
