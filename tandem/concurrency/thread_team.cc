#include "tandem/concurrency/thread_team.h"

#include <utility>

#include "tandem/base/check.h"

namespace tandem {

ThreadTeam::ThreadTeam(std::string name, int size, SpinBudget spin) : name_(std::move(name)), spin_(spin) {
  TANDEM_CHECK(size > 0, "a team '", name_, "' of ", size, " threads");
  try {
    for (int i = 0; i < size; ++i) {
      workers_.push_back(
          std::make_unique<Worker>(concat(name_, " ", i), [this, i](const std::stop_token&) { serve(i); }));
    }
  } catch (...) {
    end();  // those that did start would be joined for ever
    throw;
  }
}

ThreadTeam::~ThreadTeam() { end(); }

void ThreadTeam::end() {
  ending_.store(true, std::memory_order_relaxed);  // published by the change of round_
  round_.fetch_add(1);
  round_.wake_all();
}

void ThreadTeam::run_erased(Call* call, void* callable) {
  TANDEM_CHECK(!running_.exchange(true, std::memory_order_acquire), "the team '", name_, "' is already running a task");
  failures_.clear();
  failed_.store(false, std::memory_order_relaxed);
  call_ = call;
  callable_ = callable;
  busy_.store(size(), std::memory_order_relaxed);
  const std::uint32_t before = finished_.load();
  round_.fetch_add(1);
  round_.wake_all();
  finished_.wait_while(before, spin_, Deadline::infinite());
  running_.store(false, std::memory_order_release);
  if (failed_.load(std::memory_order_relaxed)) failures_.rethrow();
}

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
