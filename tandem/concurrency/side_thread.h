// concurrency/side_thread.h: a thread that its owner gives one task at a time, to do something else meanwhile.
//
//   SideThread side("envs 0", spin_budget_for(2));
//   side.start(step_environments);
//   act_for_others();
//   side.wait();
//
// For what ThreadTeam is not: there the caller waits at once. A round trip costs microseconds and no memory.
//
// Threads: start() and wait() belong to one thread at a time, the owner's; what that wrote before start(), the task
// sees, and what the task wrote, the owner sees after wait(). The rest may be called by any.
// Blocking: wait() returns when the task has, and so does the destructor. Tasks are not abandoned: whatever one waits
// for needs an end of its own.
#pragma once
#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"
#include "tandem/concurrency/worker.h"

namespace tandem {

class SideThread {
 public:
  /// `spin`: how long either side looks before it sleeps.
  SideThread(std::string name, SpinBudget spin);
  /// Waits for the task that is under way; what it throws is dropped.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  /// Begins task(). It must live until wait(), and the one before must have been waited for.
  template <typename Task>
  void start(Task& task) {
    start_erased([](void* callable) { (*static_cast<Task*>(callable))(); },
                 const_cast<void*>(static_cast<const void*>(std::addressof(task))));
  }
  /// Waits for the task that was started, if any, and rethrows what it threw. The thread can be used again.
  void wait();

  /// Between start() and wait(); the owner's.
  [[nodiscard]] bool started() const { return started_; }
  /// Owners asleep in wait(), and whether the thread sleeps until there is a task. For tests, and for reports.
  [[nodiscard]] int owners_asleep() const { return done_.sleepers(); }
  [[nodiscard]] bool idle() const { return asked_.sleepers() > 0; }

 private:
  using Call = void(void* callable);

  void start_erased(Call* call, void* callable);
  void serve();

  const SpinBudget spin_;
  bool started_ = false;
  std::uint32_t done_before_ = 0;  // done_ when the task was started
  Call* call_ = nullptr;           // what to run and on what: written before asked_ moves, read after
  void* callable_ = nullptr;
  std::exception_ptr failure_;  // written before done_ moves, read after
  std::atomic<bool> ending_{false};
  alignas(64) WaitWord asked_;    // moves when there is a task, or the end
  alignas(64) WaitWord done_;     // moves when the task has returned
  std::optional<Worker> thread_;  // last: it uses the rest
};

}  // namespace tandem
