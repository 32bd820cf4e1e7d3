#include "tandem/concurrency/thread_team.h"

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {

ThreadTeam::ThreadTeam(std::string name, int size, SpinBudget spin) : name_(std::move(name)), spin_(spin) {
  TANDEM_CHECK(size > 0, "a team '", name_, "' of ", size, " threads");
  try {
    for (int i = 0; i < size; ++i) {
      workers_.push_back(
          std::make_unique<Worker>(concat(name_, " ", i), [this, i](const std::stop_token&) { serve(i); }));
    }
  } catch (...) {
    end();  // the threads that did start would never return from their wait
    throw;
  }
}

ThreadTeam::~ThreadTeam() { end(); }

void ThreadTeam::end() {
  ending_.store(true, std::memory_order_relaxed);  // published by the change of round_
  round_.fetch_add(1);
  round_.wake_all();
}

// 1. Stores the task and the count of threads, and then moves round_, which every thread waits for. 2. Waits until the
// last thread moves finished_. 3. Reports: a task's failure comes before the stall, since a failure may have caused it.
void ThreadTeam::run_erased(Call* call, void* callable) {
  TANDEM_CHECK(!running_.exchange(true, std::memory_order_acquire), "the team '", name_, "' is already running a task");
  // Everything that the threads read is written before round_ moves, which publishes it.
  failures_.clear();
  failed_.store(false, std::memory_order_relaxed);
  call_ = call;
  callable_ = callable;
  busy_.store(size(), std::memory_order_relaxed);
  const std::uint32_t before = finished_.load();
  round_.fetch_add(1);
  round_.wake_all();
  const std::string stalled = await_tasks(before);
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
std::string ThreadTeam::await_tasks(std::uint32_t before) {
  if (!watch_) {
    finished_.wait_while(before, spin_, Deadline::infinite());
    return {};
  }
  while (finished_.wait_while(before, spin_, watch_->next_look()) == before) {
    // An empty answer means that all is well until the next look.
    std::string why = watch_->look();
    if (why.empty()) continue;
    watch_->end(why);
    if (finished_.wait_while(before, spin_, Deadline::after(watch_->grace)) == before) fail_hung(why);
    return why;
  }
  return {};
}

// Throws HungThread, with the message of a task's failure in front if there is one: it often is the cause.
void ThreadTeam::fail_hung(const std::string& why) const {
  std::string cause;
  try {
    failures_.rethrow();
  } catch (const GroupAborted&) {  // NOLINT(bugprone-empty-catch): of the tasks whose waits were ended
  } catch (const std::exception& error) {
    cause = concat(error.what(), "; ");
  }
  throw HungThread(concat(cause, why, "; ", busy_.load(std::memory_order_relaxed), " of ", size(), " threads '", name_,
                          "' have not come back in time, and none can be ended from outside"));
}

// A thread's loop: waits until round_ moves and runs the task. The last thread to finish wakes the caller.
void ThreadTeam::serve(int index) {
  for (std::uint32_t seen = 0;;) {
    seen = round_.wait_while(seen, spin_, Deadline::infinite());
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
    failures_.add(concat(name_, " ", index), std::current_exception());
    if (!failed_.exchange(true, std::memory_order_relaxed) && on_failure_) on_failure_();
  }
}

}  // namespace tandem
