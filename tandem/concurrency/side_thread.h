// concurrency/side_thread.h: a thread that does one task at a time while its owner does something else.
//
//   SideThread side("envs 0", spin_budget_for(2));
//   side.start(step_environments);
//   act_for_others();
//   side.wait();
//
// The caller of ThreadTeam waits at once; the owner of a SideThread does not. A round trip costs microseconds and
// allocates nothing.
//
// Threads: start() and wait() belong to one thread at a time, the owner. The task sees what the owner wrote before
// start(), and the owner sees after wait() what the task wrote. The other members may be called by any thread.
// Blocking: wait() and the destructor return when the task has returned. A task is never abandoned, so each of its own
// waits needs a limit.
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

/// A failure of the task is kept until wait() throws it.
class SideThread {
 public:
  /// Starts the thread. `spin` says how long either side spins before it sleeps.
  SideThread(std::string name, SpinBudget spin);
  /// Waits for the task that is under way. An exception of that task is dropped.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  /// Begins task(). `task` must live until wait(), and the previous task must have been waited for. Throws
  /// InvariantError when it was not.
  template <typename Task>
  void start(Task& task) {
    start_erased([](void* callable) { (*static_cast<Task*>(callable))(); },
                 const_cast<void*>(static_cast<const void*>(std::addressof(task))));
  }
  /// Waits for the started task, if there is one, and rethrows its exception. The thread can be used again.
  void wait();

  /// Whether a task was started and not waited for yet. For the owner.
  [[nodiscard]] bool started() const { return started_; }
  /// How many owners sleep in wait(), and whether the thread sleeps for want of a task. For tests, and for reports.
  [[nodiscard]] int owners_asleep() const { return done_.sleepers(); }
  [[nodiscard]] bool idle() const { return asked_.sleepers() > 0; }

 private:
  // The task's type is erased without std::function, which might allocate.
  using Call = void(void* callable);

  void start_erased(Call* call, void* callable);
  // The loop of the thread, until ending_ is set.
  void serve();

  const SpinBudget spin_;
  bool started_ = false;
  std::uint32_t done_before_ = 0;  // done_ when the task was started
  Call* call_ = nullptr;           // the task, with callable_: written before asked_ moves, read after
  void* callable_ = nullptr;
  std::exception_ptr failure_;  // written before done_ moves, read after
  std::atomic<bool> ending_{false};
  alignas(64) WaitWord asked_;    // moves when there is a task, or the end
  alignas(64) WaitWord done_;     // moves when the task has returned
  std::optional<Worker> thread_;  // last: it uses the rest
};

}  // namespace tandem
