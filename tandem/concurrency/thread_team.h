// concurrency/thread_team.h: a fixed number of threads that do the same task together, again and again.
//
//   ThreadTeam team("replica", 2);
//   team.run([&](int replica) { learn(replica); });
//
// The threads live as long as the team, so that what is bound to a thread (its name, its caches) stays, and a
// round trip costs microseconds. Between tasks they spin for a while and then sleep.
//
// Threads: run() is called by one thread at a time, never by one of the team; what the caller wrote before run(), the
// tasks see, and what they wrote, the caller sees after it.
// Blocks: run() returns when all tasks have. They are not abandoned: whatever a task waits for needs a deadline or a
// stop token, and `on_failure` of the team must end the waits of its siblings. Tasks that call
// what may hang need a Watch.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/concurrency/failures.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"
#include "tandem/concurrency/worker.h"

namespace tandem {

class ThreadTeam {
 public:
  /// Threads "NAME 0" .. "NAME size-1". Between tasks they spin as long as `spin` says, and so does the caller during
  /// one. By default nobody spins unless all of them, the caller included, can have a core of their own.
  ThreadTeam(std::string name, int size, SpinBudget spin);
  ThreadTeam(std::string name, int size) : ThreadTeam(std::move(name), size, spin_budget_for(size + 1)) {}
  /// Joins the threads, which are idle.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()); }

  /// Called on the thread of the task that failed first, at once, while the others still run; must not throw. Set it
  /// before the first run.
  void set_on_failure(std::function<void()> on_failure) { on_failure_ = std::move(on_failure); }

  /// Looks after tasks that may hang, on the thread of run(), while that waits for them.
  struct Watch {
    std::function<Deadline()> next_look;
    std::function<std::string()> look;            // why the tasks have to end; empty while all is well
    std::function<void(const std::string&)> end;  // ends their waits, as on_failure
    Clock::duration grace{};                      // for them to return after that
  };
  /// Between runs. Of tasks that had to end, run() throws the failure to report, or StalledCall with what
  /// look() said; and HungThread when one has not returned even so: the team can then neither be used nor
  /// destroyed, nor may what its tasks use be, before it does.
  void set_watch(Watch watch) { watch_ = std::move(watch); }

  /// Runs task(index) on every thread and waits for all. If any throws, rethrows the failure to report (see Failures)
  /// as it was thrown; failures() then has them all. The team can be used again.
  template <typename Task>
  void run(Task&& task) {
    using Callable = std::remove_reference_t<Task>;
    run_erased([](void* callable, int index) { (*static_cast<Callable*>(callable))(index); },
               const_cast<void*>(static_cast<const void*>(std::addressof(task))));
  }

  /// What failed in the last run.
  [[nodiscard]] const Failures& failures() const { return failures_; }

  /// Threads of the team that sleep between tasks.
  [[nodiscard]] int sleepers() const { return round_.sleepers(); }

 private:
  using Call = void(void* callable, int index);

  void run_erased(Call* call, void* callable);
  [[nodiscard]] std::string await_tasks(std::uint32_t before);
  [[noreturn]] void fail_hung(const std::string& why) const;
  void serve(int index);
  void work(int index) noexcept;
  void end();

  const std::string name_;
  const SpinBudget spin_;
  std::function<void()> on_failure_;
  std::optional<Watch> watch_;
  Failures failures_;
  std::atomic<bool> failed_{false}, running_{false};

  Call* call_ = nullptr;  // what to run and on what: written before round_ moves, read after
  void* callable_ = nullptr;
  std::atomic<bool> ending_{false};
  alignas(64) WaitWord round_;            // moves when there is a task, or the end
  alignas(64) std::atomic<int> busy_{0};  // threads that have not finished the task
  alignas(64) WaitWord finished_;         // moves when the last one has
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace tandem
