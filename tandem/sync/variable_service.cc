#include "tandem/sync/variable_service.h"

#include <string>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

std::string listed(const std::vector<int>& replicas) {
  std::string text;
  for (const int replica : replicas) text += concat(text.empty() ? "replica " : ", ", replica);
  return text.empty() ? "nobody" : text;
}

}  // namespace

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
  let_go(replica);
  {
    const MutexLock lock(mutex_);
    if (has_left(replica)) return;
  }
  fail(why);
}

void VariableService::require_alive(int replica, const Limits& limits) {
  if (limits.stop.stop_requested())
    throw GroupAborted(concat("replica ", replica, " asked for the variables and was stopped, or died, meanwhile"));
}

void VariableService::let_go(int replica) {
  {
    const MutexLock lock(mutex_);
    reading_.erase(replica);
  }
  changed_.notify_all();
}

// It reads before it has left, so that nobody finds all gone in between.
void VariableService::depart(int replica, const Limits& limits, const ReadState& read) {
  {
    const MutexLock lock(mutex_);
    require_whole();
    require_alive(replica, limits);
    reading_.insert(replica);
  }
  leave(replica);
  const MutexLock lock(mutex_);
  const auto who = [&]() TANDEM_REQUIRES(mutex_) {
    return concat("replica ", replica, " has left and waited for ", listed(present()), " to do so");
  };
  wait_for([&]() TANDEM_REQUIRES(mutex_) { return present().empty(); }, who, limits);
  read(state());
}

void VariableService::await_departed(const Limits& limits) {
  const MutexLock lock(mutex_);
  const auto who = [&]() TANDEM_REQUIRES(mutex_) {
    return concat("the owner of the variables waited for ", listed({reading_.begin(), reading_.end()}),
                  " to read their last state");
  };
  wait_for([&]() TANDEM_REQUIRES(mutex_) { return present().empty() && reading_.empty(); }, who, limits);
}

std::vector<at::Tensor> VariableService::state() { return home_.state(); }

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
