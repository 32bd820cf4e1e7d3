#include "tandem/concurrency/thread_team.h"

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem {

std::vector<std::string> ThreadTeam::numbered(const std::string& name, int size) {
  std::vector<std::string> names;
  for (int i = 0; i < size; ++i) names.push_back(concat(name, " ", i));
  return names;
}

ThreadTeam::ThreadTeam(std::string name, const std::vector<std::string>& threads, SpinBudget spin)
    : name_(std::move(name)), spin_(spin), patience_(spin) {
  TANDEM_CHECK(!threads.empty(), "a team '", name_, "' without threads");
  try {
    for (int i = 0; i < std::ssize(threads); ++i) {
      workers_.push_back(std::make_unique<Worker>(threads[static_cast<std::size_t>(i)],
                                                  [this, i](const std::stop_token&) { serve(i); }));
    }
  } catch (...) {
    end();  // the threads that did start would never return from their wait
    throw;
  }
}

// A task that runs uses its caller's objects, so it has to end first.
ThreadTeam::~ThreadTeam() {
  if (running_.load()) finished_.wait_while(before_, patience_, Deadline::infinite());
  end();
}

void ThreadTeam::end() {
  ending_.store(true, std::memory_order_relaxed);  // published by the change of round_
  round_.fetch_add(1);
  round_.wake_all();
}

// Stores the task and the count of threads, and then moves round_, which every thread waits for.
void ThreadTeam::start_erased(Call* call, void* callable) {
  TANDEM_CHECK(!running_.exchange(true, std::memory_order_acquire), "the team '", name_, "' is already running a task");
  // Everything that the threads read is written before round_ moves, which publishes it.
  failures_.clear();
  failed_.store(false, std::memory_order_relaxed);
  call_ = call;
  callable_ = callable;
  busy_.store(size(), std::memory_order_relaxed);
  before_ = finished_.load();
  round_.fetch_add(1);
  round_.wake_all();
}

// Waits until the last thread moves finished_, and reports: a task's failure comes before the stall, since a failure
// may have caused it.
void ThreadTeam::wait() {
  if (!running_.load(std::memory_order_relaxed)) return;
  const std::string stalled = await_tasks();
  running_.store(false, std::memory_order_release);
  if (stalled.empty()) {
    if (failed_.load(std::memory_order_relaxed)) failures_.rethrow();
    return;
  }
  try {
    failures_.rethrow();
  } catch (const GroupAborted&) {  // NOLINT(bugprone-empty-catch): of the tasks whose waits were ended
  }
  throw StalledCall(stalled);
}

// Waits for all tasks. Returns an empty text, or why the watch had to end the tasks.
std::string ThreadTeam::await_tasks() {
  if (!watch_) {
    finished_.wait_while(before_, patience_, Deadline::infinite());
    return {};
  }
  while (finished_.wait_while(before_, patience_, watch_->next_look()) == before_) {
    // An empty answer means that all is well until the next look.
    std::string why = watch_->look();
    if (why.empty()) continue;
    watch_->end(why);
    if (finished_.wait_while(before_, patience_, Deadline::after(watch_->grace)) != before_) return why;
    if (const int busy = busy_.load(std::memory_order_acquire); busy > 0) fail_hung(why, busy);
    // The last of them has come back just now, and is about to say so.
    finished_.wait_while(before_, patience_, Deadline::infinite());
    return why;
  }
  return {};
}

// Throws HungThread, with the message of a task's failure in front if there is one: it often is the cause.
void ThreadTeam::fail_hung(const std::string& why, int busy) const {
  std::string cause;
  try {
    failures_.rethrow();
  } catch (const GroupAborted&) {  // NOLINT(bugprone-empty-catch): of the tasks whose waits were ended
  } catch (const std::exception& error) {
    cause = concat(error.what(), "; ");
  }
  throw HungThread(concat(cause, why, "; ", busy, " of ", size(), " threads '", name_,
                          "' have not come back in time, and none can be ended from outside"));
}

// A thread's loop: waits until round_ moves and runs the task. The last thread to finish wakes the caller.
void ThreadTeam::serve(int index) {
  Patience patience(spin_);
  for (std::uint32_t seen = 0;;) {
    seen = round_.wait_while(seen, patience, Deadline::infinite());
    if (ending_.load(std::memory_order_relaxed)) return;
    work(index);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      finished_.fetch_add(1);
      finished_.wake_all();
    }
  }
}

void ThreadTeam::work(int index) noexcept {
  try {
    call_(callable_, index);
  } catch (...) {
    failures_.add(workers_[static_cast<std::size_t>(index)]->name(), std::current_exception());
    failed_.store(true, std::memory_order_relaxed);
    if (on_failure_) on_failure_(index, message_of(std::current_exception()));
  }
}

}  // namespace tandem
