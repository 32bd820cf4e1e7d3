#include "tandem/sync/variable_service.h"

#include <string>
#include <utility>

#include "tandem/base/error.h"

namespace tandem::sync {

void VariableService::load(Replica& from) {
  const MutexLock lock(mutex_);
  require_whole();
  home_.load(from);
  start_anew(from);
}

void VariableService::store(Replica& to) {
  const MutexLock lock(mutex_);
  require_whole();
  home_.store(to);
}

void VariableService::lose(int replica, const std::exception_ptr& why) {
  {
    const MutexLock lock(mutex_);
    if (has_left(replica)) return;
  }
  fail(why);
}

void VariableService::fail(const std::exception_ptr& why) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  changed_.notify_all();
  const MutexLock lock(telling_);
  if (failed_) failed_(why);
}

void VariableService::on_failure(Failed failed) {
  const MutexLock lock(telling_);
  failed_ = std::move(failed);
}

void VariableService::require_whole() const {
  if (failure_) std::rethrow_exception(failure_);
}

void VariableService::wait_for(const std::function<bool()>& ready, const std::function<std::string()>& who,
                               const Limits& limits) {
  const auto is_over = [&]() TANDEM_REQUIRES(mutex_) { return failure_ || ready(); };
  const bool in_time = changed_.wait(mutex_, limits.stop, limits.deadline, is_over);
  require_whole();
  if (in_time) return;
  if (limits.stop.stop_requested()) throw GroupAborted(who() + ", and was stopped");
  throw DeadlineExceeded(who() + "; the deadline passed: it is stopped, or much slower than the others");
}

}  // namespace tandem::sync
