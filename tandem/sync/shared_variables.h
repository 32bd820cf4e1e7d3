// sync/shared_variables.h: the parameters and optimizer state that all replicas of an asynchronous run update, each on
// its own.
//
// An update and a read exclude each other as a whole, so nobody sees a tensor half-written, nor tensors of two
// versions. They lie in the memory of one process, on the CPU; other processes reach them through variable_link.h.
//
// Threads: all members from any thread, a replica's calls one at a time. Blocking: await_turn() only, until `limits`,
// with DeadlineExceeded naming the replicas that are behind, or GroupAborted when stopped. After fail() every call
// throws what it was given.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

#include "tandem/base/mutex.h"
#include "tandem/concurrency/limits.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/staleness_ledger.h"

namespace tandem::sync {

/// A gradient that a replica offers.
struct Offer {
  int replica = 0;
  double scale = 1;          // of the gradients, which are sums
  double learning_rate = 0;  // of group 0, before the factor
  double lr_factor = 1;
};

class SharedVariables {
 public:
  /// Of the same layout and optimizer as `like`, which holds the values to begin with and is not kept.
  SharedVariables(Replica& like, const StalenessBound& bound);
  ~SharedVariables();
  SharedVariables(const SharedVariables&) = delete;
  SharedVariables& operator=(const SharedVariables&) = delete;

  /// Takes the values and optimizer state of a replica; counts begin anew.
  void load(Replica& from);
  /// Gives them to it.
  void store(Replica& to);

  /// Applies the gradient, or drops it.
  StalenessLedger::Entry push(const Offer& offer, const model::FlatParameters::Gradients& gradients);
  /// A step without a gradient.
  void pass(int replica);
  /// Returns when the replica may begin its next step.
  void await_turn(int replica, const Limits& limits);
  /// Calls `read` with the flat values, which do not change until it returns. For the replica's next step.
  using Read = std::function<void(const std::vector<model::FlatBuffer>& values)>;
  void pull(int replica, const Read& read);

  /// Nobody waits for this replica any more.
  void leave(int replica);
  /// All replicas, which hold the values as they are, go on side by side.
  void rejoin();
  /// The replica is gone for a reason that ends the run, unless it has left. The first reason stays.
  void lose(int replica, const std::exception_ptr& why);
  void fail(const std::exception_ptr& why);
  /// Called with the first failure, on the thread that brings it. An empty function ends the calls; returns when none
  /// is under way.
  using Failed = std::function<void(const std::exception_ptr& why)>;
  void on_failure(Failed failed);

  [[nodiscard]] StalenessLedger::Counts counts() const;
  /// Gradient memory of this layout, on the CPU.
  [[nodiscard]] model::FlatParameters::Gradients make_gradients() const;
  [[nodiscard]] const std::vector<model::FlatBuffer>& layout() const;

 private:
  struct Home;
  void require_whole() const TANDEM_REQUIRES(mutex_);

  const std::unique_ptr<Home> home_;
  mutable Mutex mutex_;
  CondVar changed_;
  StalenessLedger ledger_ TANDEM_GUARDED_BY(mutex_);
  std::exception_ptr failure_ TANDEM_GUARDED_BY(mutex_);
  Mutex telling_;  // never taken while mutex_ is held
  Failed failed_ TANDEM_GUARDED_BY(telling_);
};

}  // namespace tandem::sync
