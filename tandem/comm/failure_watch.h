// comm/failure_watch.h: ends the wait of a rank that meets others when one of them has failed, or the host of the store
// is gone. Until the ranks have a group, nothing but the store tells that. Internal to world.cc.
//
// Threads: one makes and destroys it; token() and why() may be called from any. It looks four times a second, from a
// thread of its own. Blocking: the destructor waits for one answer of the store, at most.
#pragma once
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "tandem/base/mutex.h"
#include "tandem/comm/departure.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {

class FailureWatch {
 public:
  /// The failure that is known by now, if any; of another rank than the one that watches. Called by the watch's thread.
  using Find = std::function<std::optional<FirstFailure>()>;
  /// Watches what `find` finds, which asks the store. `stop`: the caller's own.
  FailureWatch(Find find, const std::stop_token& stop);

  /// Requested when a failure was seen, or the caller's token was.
  [[nodiscard]] std::stop_token token() const { return either_.get_token(); }
  /// Throws PeerLost of the rank that failed, with its reason, or RunError that the store is lost; returns when neither
  /// was seen.
  void rethrow() const;

 private:
  void look(const Find& find, const std::stop_token& stop);

  std::stop_source either_;
  std::stop_callback<std::function<void()>> callers_;
  mutable Mutex mutex_;
  int failed_ TANDEM_GUARDED_BY(mutex_) = -1;
  std::string why_ TANDEM_GUARDED_BY(mutex_);
  Worker worker_;  // last: it uses the others
};

}  // namespace tandem::comm
