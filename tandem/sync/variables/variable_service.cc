#include "tandem/sync/variables/variable_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {
namespace {

std::string listed(const std::vector<int>& replicas) {
  std::string text;
  for (const int replica : replicas) text += concat(text.empty() ? "replica " : ", ", replica);
  return text.empty() ? "nobody" : text;
}

}  // namespace

// A wait mostly ends after a step of another replica, the sum, the update and its reading: for small models a fraction
// of a millisecond, which is longer than a wake-up takes. Hence four times the usual budget.
VariableService::VariableService(Replica& like)
    : home_(like), spin_{4 * spin_budget_for(like.placement().replicas).limit} {}

void VariableService::load(Replica& from, const model::NamedTensors& besides) {
  const MutexLock lock(mutex_);
  require_whole();
  home_.load(from);
  start_anew(from);
  if (!besides.empty()) model::copy_named(besides, this->besides());
}

void VariableService::store(Replica& to, const model::NamedTensors& besides) {
  const MutexLock lock(mutex_);
  require_whole();
  home_.store(to);
  if (!besides.empty()) model::copy_named(this->besides(), besides);
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

Outcome VariableService::recall(int replica, const Recalled&) {
  TANDEM_CHECK(false, "replica ", replica, " recalls its gradients to variables that cannot take over");
}

void VariableService::let_go(int replica) {
  {
    const MutexLock lock(mutex_);
    reading_.erase(replica);
  }
  tell_all();
}

// The replica counts as a reader before it leaves, so that await_departed() cannot find all gone in between.
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

std::vector<at::Tensor> VariableService::state() {
  std::vector<at::Tensor> state = home_.state();
  for (const auto& [name, tensor] : besides()) state.push_back(tensor);
  return state;
}

// Spinning that ends in vain has taken a core that others may need. Then the next waits sleep at once: one, then two,
// four and so on, up to kMostSleeps. The lock is free while this thread spins.
void VariableService::look_out(const std::function<bool()>& is_over) {
  if (spin_.limit.count() == 0) return;
  if (sleeps_left_ > 0) {
    --sleeps_left_;
    return;
  }
  // News for other replicas must not keep this one from sleeping for ever.
  constexpr int kMostNews = 16;
  for (int news = 0; news < kMostNews; ++news) {
    const std::uint32_t seen = told_.load();
    mutex_.unlock();
    const bool is_news = spin_until(spin_, [&] { return told_.load(std::memory_order_relaxed) != seen; });
    mutex_.lock();
    if (!is_news) {
      sleeps_left_ = sleeps_after_spin_;
      sleeps_after_spin_ = std::min(2 * sleeps_after_spin_, kMostSleeps);
      return;
    }
    if (is_over()) break;
  }
  sleeps_after_spin_ = 1;
}

void VariableService::tell_all() {
  told_.fetch_add(1);
  changed_.notify_all();
}

// Waiting replicas are told first; then `failed_`, which may send messages, without mutex_.
void VariableService::fail(const std::exception_ptr& why) {
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    failure_ = why;
  }
  tell_all();
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

// Throws what fail() was given, if it was called; else returns when `ready`, or throws for the deadline or the stop.
void VariableService::wait_for(const std::function<bool()>& ready, const std::function<std::string()>& who,
                               const Limits& limits) {
  const auto is_over = [&]() TANDEM_REQUIRES(mutex_) { return failure_ || ready(); };
  if (!is_over()) look_out(is_over);
  const bool in_time = changed_.wait(mutex_, limits.stop, limits.deadline, is_over);
  require_whole();
  if (in_time) return;
  if (limits.stop.stop_requested()) throw GroupAborted(who() + ", and was stopped");
  throw DeadlineExceeded(who() + "; the deadline passed: it is stopped, or much slower than the others");
}

}  // namespace tandem::sync
