#include "tandem/concurrency/side_thread.h"

#include <utility>

#include "tandem/base/check.h"

namespace tandem {

SideThread::SideThread(std::string name, SpinBudget spin) : spin_(spin) {
  thread_.emplace(std::move(name), [this](const std::stop_token&) { serve(); });
}

SideThread::~SideThread() {
  // A task that runs uses its owner's objects, so it has to end first; its failure, which nobody waits for, is dropped.
  if (started_) done_.wait_while(done_before_, spin_, Deadline::infinite());
  ending_.store(true, std::memory_order_relaxed);  // published by the change of asked_
  asked_.fetch_add(1);
  asked_.wake_all();
}

void SideThread::start_erased(Call* call, void* callable) {
  TANDEM_CHECK(!started_, "thread '", thread_->name(), "' was given a task while it has one");
  call_ = call;
  callable_ = callable;
  done_before_ = done_.load();
  started_ = true;
  asked_.fetch_add(1);
  asked_.wake_all();
}

void SideThread::wait() {
  if (!started_) return;
  done_.wait_while(done_before_, spin_, Deadline::infinite());
  started_ = false;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// The thread's loop: waits until asked_ moves, runs the task, and moves done_. All other members are ordered by these
// two.
void SideThread::serve() {
  for (std::uint32_t seen = 0;;) {
    seen = asked_.wait_while(seen, spin_, Deadline::infinite());
    if (ending_.load(std::memory_order_relaxed)) return;
    try {
      call_(callable_);
    } catch (...) {
      failure_ = std::current_exception();
    }
    done_.fetch_add(1);
    done_.wake_all();
  }
}

}  // namespace tandem
