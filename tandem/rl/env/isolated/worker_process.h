// rl/env/isolated/worker_process.h: a process that steps environments for this one, from its start until it is waited
// for.
//
// A thread keeps it: it starts the process, hands on what it prints, watches its memory, and waits for its end. The
// system kills the process when that thread is gone, and so when this process is, however it ends. The process ignores
// the signals by which users and schedulers ask a training to end, since they are often sent to all processes of it;
// and it leads a process group, which what a terminal sends does not reach. The rest of that group, which is what it
// has started, is killed when it has ended.
//
// Threads: the owner's, besides its own. Ownership: the destructor kills the process; no zombie is left. Blocking: the
// constructor until the program runs; end() as it says.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/descriptor.h"
#include "tandem/concurrency/worker.h"

namespace tandem::rl {

class WorkerProcess {
 public:
  struct Start {
    /// The program and its arguments.
    std::vector<std::string> command;
    /// Become kWorkerSocket and kWorkerMemory of the process.
    int socket = -1, memory = -1;
    /// The text that it reads from its standard input: an interpreter's program. Empty: nothing is read.
    std::string input = {};
    /// Names of variables that the process does not get.
    std::vector<std::string> without_variables = {};
    /// Bytes of memory of its own beyond which it is killed; 0: no limit.
    std::uint64_t most_memory = 0;
    /// Called with each line that it prints, on the thread that keeps it. May be empty. A line is lost where it throws.
    std::function<void(pid_t process, const std::string& line)> tell = {};
    /// Called on that thread when the process has ended, before end() returns. May be empty, and must not throw.
    std::function<void()> on_end = {};
  };

  /// Throws ConfigError when the program cannot be executed, RunError when the system refuses.
  explicit WorkerProcess(Start start);
  ~WorkerProcess();

  [[nodiscard]] pid_t id() const { return id_; }
  /// Gives it `patience` to end by itself, kills it, and says how it ended: "was killed by SIGSEGV". Blocks until it
  /// has ended and what it has printed was handed on, which has no bound: a process that the system keeps in a call, as
  /// of a device or of a file system of the network, ends when that call does. Later calls say the same.
  [[nodiscard]] std::string end(Clock::duration patience);

 private:
  struct Started {
    pid_t id = -1;
    Descriptor exit_event, output;
  };
  [[nodiscard]] Started launch() const;
  // The whole life of the thread.
  void keep();
  void watch();
  // Hands on whole lines. False at the end of the output.
  bool take_output();
  void tell(const std::string& line) const;
  void look_at_memory();

  const Start start_;
  std::promise<pid_t> started_;
  pid_t id_ = -1;
  bool is_killed_ = false;  // by end()
  // The thread's, until it has ended.
  Started its_;
  std::string line_, how_;
  std::uint64_t took_ = 0;  // bytes that it had when it was killed for them
  Worker keeper_;
};

}  // namespace tandem::rl
