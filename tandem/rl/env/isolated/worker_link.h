// rl/env/isolated/worker_link.h: one worker process and what is shared with it, as the training asks it: one request,
// one answer.
//
// Nothing that the worker writes is believed. Lengths and words are compared with their bounds, texts are cut; what
// comes in arrays is judged by who copies them (isolated_envs.h). A worker that ends, takes too long or answers
// nonsense is killed, and the request is a WorkerLost that says how it ended.
//
// Threads: single-thread. Blocking: call(), give() and take(), each until the worker has answered, is gone, or the
// deadline of one request. The destructor gives the worker kPatienceForTheEnd to destroy its environments.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/concurrency/spin.h"
#include "tandem/rl/env/isolated/env_region.h"
#include "tandem/rl/env/isolated/worker_process.h"
#include "tandem/rl/env/isolated/worker_task.h"
#include "tandem/rl/env/restarting_envs.h"

namespace tandem::rl {

/// How env groups live in processes of their own.
struct IsolationOptions {
  /// What a worker makes; the number of environments and of restarts are filled in by the group.
  WorkerTask task = {};
  /// The program that serves them, and its arguments: this one again, unless said.
  std::vector<std::string> command = {"/proc/self/exe", "env-worker"};
  /// What it reads from its standard input: an interpreter's program. Empty: nothing.
  std::string input = {};
  /// What a user might look at when a worker ends before it has begun.
  std::string hint =
      "if this program has a main() of its own, main() must hand its arguments to run_program(), which also serves as "
      "the worker";
  /// The longest that one request may take, such as a step of all environments of a group, with those that are made
  /// anew in it. The first ones, in which the worker starts, may take kStartPatience longer.
  Clock::duration deadline = std::chrono::seconds(60);
  /// Bytes of memory of its own beyond which a worker is killed; 0: no limit.
  std::uint64_t most_memory = 0;
  /// Before each side sleeps: none where there are fewer cores than threads and workers.
  SpinBudget spin = {};
  /// Names of variables that workers do not get.
  std::vector<std::string> without_variables = {};
  /// Called with each line that a worker prints, on a thread of its own. May be empty.
  std::function<void(pid_t process, const std::string& line)> tell = {};
};
inline constexpr std::chrono::seconds kStartPatience{60};

/// The worker is gone, or was killed for what it did; the message says how.
struct WorkerLost : EnvError {
  using EnvError::EnvError;
};

class WorkerLink {
 public:
  /// Starts the worker. `budget` is asked for environments that fail in the worker; null: no failure is restarted. All
  /// must outlive the link. Throws ConfigError when the program cannot be started.
  WorkerLink(const RegionLayout& layout, const IsolationOptions& options, RestartBudget* budget);
  ~WorkerLink();

  /// Has it make its environments. Throws ConfigError when it refuses the task, WorkerLost when it ends before it has
  /// begun.
  void begin(const WorkerTask& task);
  /// Asks for their spec instead: JSON of at most `most_bytes`. Throws as begin() does.
  [[nodiscard]] std::string describe(const WorkerTask& task, std::uint64_t most_bytes);
  /// Throws WorkerLost, or the error that the worker answers with: EnvError, ConfigError, CheckpointError.
  std::uint64_t call(WorkerCommand command, std::uint64_t argument = 0);
  /// The two halves of call(), between which other workers can be asked. finish() throws as call() does; start() throws
  /// nothing.
  void start(WorkerCommand command);
  std::uint64_t finish();
  void set_progress(double share);
  /// Hands over the input of the next command; take() fetches the output of the last one. In pieces of the window, all
  /// of them within the deadline of one request.
  void give(std::span<const std::byte> input);
  [[nodiscard]] std::vector<std::byte> take(std::uint64_t bytes);

  [[nodiscard]] const EnvRegion& region() const { return region_; }
  [[nodiscard]] bool can_save() const { return can_save_; }
  [[nodiscard]] bool can_step_rows() const { return can_step_rows_; }
  [[nodiscard]] bool can_draw() const { return can_draw_; }
  [[nodiscard]] bool can_reward_goals() const { return can_reward_goals_; }
  /// How many environments the worker was allowed to make anew in the last call, which may have failed.
  [[nodiscard]] std::uint64_t granted() const { return granted_; }
  /// Kills the worker for what it wrote.
  [[noreturn]] void fail(const std::string& what);

 private:
  // The ends of a socket: ours, and the worker's.
  struct Pair {
    Descriptor own, other;
  };
  [[nodiscard]] static Pair connected();

  [[nodiscard]] Clock::duration allowed() const;
  std::uint64_t call(WorkerCommand command, std::uint64_t argument, const Deadline& deadline);
  void send(WorkerCommand command, std::uint64_t argument);
  // The answer to `command`, with those to what the worker asks meanwhile.
  std::uint64_t answer_to(WorkerCommand command, const Deadline& deadline);
  // Waits for the answer to the newest request.
  WorkerOutcome outcome(WorkerCommand for_what, const Deadline& deadline);
  // Of an answer. Each call reads it once: the worker may change it at any time.
  [[nodiscard]] std::uint64_t its_value() const;
  // The text of an answer, as it is printed.
  [[nodiscard]] std::string text(std::uint64_t bytes) const;
  [[noreturn]] void lose(Clock::duration patience, const std::string& why);

  const RegionLayout& layout_;
  const IsolationOptions& options_;
  RestartBudget* const budget_;
  const EnvRegion region_;
  RegionHeader& header_;
  Pair sockets_;
  WorkerProcess process_;
  std::uint32_t requests_ = 0;
  std::uint64_t granted_ = 0;
  bool has_begun_ = false, can_save_ = false, can_step_rows_ = false, can_draw_ = false, can_reward_goals_ = false;
  // Of start().
  WorkerCommand started_ = WorkerCommand::kBegin;
  std::optional<Deadline> until_;
};

}  // namespace tandem::rl
