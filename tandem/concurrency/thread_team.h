// concurrency/thread_team.h: a fixed number of threads that do the same task together, again and again.
//
//   ThreadTeam team("replica", 2);
//   team.run([&](int replica) { learn(replica); });
//
//   ThreadTeam side("envs 0", spin);   // one thread, whose owner does something else meanwhile
//   side.start(step_environments);
//   act_for_others();
//   side.wait();
//
// The threads live as long as the team, so the things that are bound to a thread (its name, its caches) stay, and a
// round trip costs microseconds and allocates nothing. Between tasks the threads spin for a while and then sleep.
//
// Threads: run(), or start() and wait(), are called by one thread at a time, never by a thread of the team. The tasks
// see what the caller wrote before, and the caller sees afterwards what the tasks wrote.
// Blocking: run() and wait() return when all tasks have returned. Tasks are not abandoned, so every wait of a task
// needs a deadline or a stop token, and `on_failure` must end the waits of the other tasks. Tasks that call code that
// may hang need a Watch.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"
#include "tandem/concurrency/worker.h"

namespace tandem {

class ThreadTeam {
 public:
  /// Starts the threads "NAME 0" .. "NAME size-1". `spin` says how long they usually look for the next task before they
  /// sleep, and the caller for the end of a task; each learns from its own last waits (Patience). By default nobody
  /// spins unless all threads, the caller included, can have a core of their own. Throws RunError when the system gives
  /// no thread; the threads that did start are joined before.
  ThreadTeam(const std::string& name, int size, SpinBudget spin) : ThreadTeam(name, numbered(name, size), spin) {}
  ThreadTeam(const std::string& name, int size) : ThreadTeam(name, size, spin_budget_for(size + 1)) {}
  /// Starts one thread "NAME".
  ThreadTeam(const std::string& name, SpinBudget spin) : ThreadTeam(name, std::vector{name}, spin) {}
  /// Waits for the task that is under way, whose failure is dropped. Ends and joins the threads.
  ~ThreadTeam();

  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()); }

  /// `on_failure` is called for each task that fails, on its thread, at once, while others still run: with the task's
  /// index and the message of its exception. It must not throw. Set it before the first run.
  using OnFailure = std::function<void(int index, const std::string& why)>;
  void set_on_failure(OnFailure on_failure) { on_failure_ = std::move(on_failure); }

  /// Looks after tasks that may hang. Its functions are called on the thread of run(), which waits for the tasks.
  struct Watch {
    /// The deadline of `next_look` says when `look` is called next; it may change from one look to the next.
    std::function<Deadline()> next_look;
    std::function<std::string()> look;            // why the tasks have to end; empty while all is well
    std::function<void(const std::string&)> end;  // ends their waits, as on_failure
    Clock::duration grace{};                      // for them to return after that
  };
  /// Sets the watch; call it between runs. When the watch has ended the tasks, run() throws the failure to report, or
  /// StalledCall with the text of look(). When a task has not returned even then, run() throws HungThread: the team,
  /// and whatever its tasks use, can then neither be used nor destroyed before that task returns.
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  /// Runs task(index) on every thread and waits for all. If any task throws, rethrows the failure to report (see
  /// Failures) as it was thrown; failures() then holds all of them. The team can be used again. The task is not copied:
  /// it lives at the caller, who stays in run() while the threads use it.
  template <typename Task>
  void run(Task&& task) {
    start(task);
    wait();
  }

  /// Begins task(index) on every thread. `task` must live until wait(). Throws InvariantError when the task before has
  /// not been waited for.
  template <typename Task>
  void start(Task& task) {
    start_erased([](void* callable, int index) { (*static_cast<Task*>(callable))(index); },
                 const_cast<void*>(static_cast<const void*>(std::addressof(task))));
  }
  /// Waits for the started task, if there is one, and throws as run().
  void wait();

  /// The failures of the last run. They are valid until the next run() clears them.
  [[nodiscard]] const Failures& failures() const { return failures_; }

  /// The number of threads of the team that sleep for want of a task, and of callers that sleep in wait(). Threads that
  /// still spin do not count.
  [[nodiscard]] int sleepers() const { return round_.sleepers(); }
  [[nodiscard]] int callers_asleep() const { return finished_.sleepers(); }

 private:
  // The task's type is erased without std::function, which might allocate.
  using Call = void(void* callable, int index);

  static std::vector<std::string> numbered(const std::string& name, int size);
  ThreadTeam(std::string name, const std::vector<std::string>& threads, SpinBudget spin);
  void start_erased(Call* call, void* callable);
  [[nodiscard]] std::string await_tasks();
  [[noreturn]] void fail_hung(const std::string& why, int busy) const;
  void serve(int index);
  void work(int index) noexcept;
  void end();

  // The workers come last, so that they are joined before the members that they use are gone.
  const std::string name_;
  const SpinBudget spin_;
  OnFailure on_failure_;
  std::optional<Watch> watch_;
  Failures failures_;
  std::atomic<bool> failed_{false}, running_{false};

  Call* call_ = nullptr;  // the task, with callable_: written before round_ moves, read after
  void* callable_ = nullptr;
  std::uint32_t before_ = 0;  // finished_ when the task was started
  std::atomic<bool> ending_{false};
  alignas(64) WaitWord round_;            // moves when there is a task, or the end
  alignas(64) std::atomic<int> busy_{0};  // threads that have not finished the task
  alignas(64) WaitWord finished_;         // moves when the last one has
  alignas(64) Patience patience_;         // the caller's, who writes it while threads read what is above
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace tandem
