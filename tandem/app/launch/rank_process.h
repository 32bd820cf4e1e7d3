// app/launch/rank_process.h: the process of a rank, in a process group of its own with all that it starts, and the
// warden of all ranks.
//
// It has no input, writes into two pipes, and is killed by the system when the thread that started it ends. A process
// that leaves its group (a daemon) is out of reach.
//
// Threads: single-thread; start it from the thread that outlives it.
//
// Ownership: the object owns the process and the launcher's ends of its pipes. Its end can be waited for with poll() on
// exit_event().
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "tandem/base/descriptor.h"

namespace tandem::app {

/// A process that outlives the launcher by an instant, to kill what the launcher left behind. A rank dies with the
/// launcher by itself (PR_SET_PDEATHSIG), but not the processes that it started. The warden knows the process groups of
/// all ranks. It reads from a pipe that only the launcher writes to, and when that ends, however the launcher was
/// ended, it kills them all. It keeps no descriptor of the launcher open but the reading end of the pipe, so it never
/// keeps a file or a terminal of the launcher busy.
class Warden {
 public:
  /// Starts the process, for `slots` groups. Throws RunError when the system has none to give.
  explicit Warden(int slots);
  /// Ends it; it then kills the groups that it still knows. Waits until it is gone, which nothing delays.
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  /// From now on `group` is what the slot holds; zero is nothing. Safe in a forked child: it is one system call.
  void set(int slot, pid_t group) const;

 private:
  Descriptor pipe_;
  pid_t process_ = -1;
};

/// How a process ended: by its own exit code, or by a signal.
struct ProcessEnd {
  int code = 0;
  int signal = 0;
  bool is_too_early = false;  // with code 0, though it had not said that its work was over (base/last_word.h)

  [[nodiscard]] bool is_success() const { return code == 0 && signal == 0 && !is_too_early; }
  /// Returns the exit code that a shell would report: for a signal 128 and its number. An end that came too early is a
  /// run that failed.
  [[nodiscard]] int exit_code() const { return is_too_early ? 3 : signal == 0 ? code : 128 + signal; }
};
/// "exit code 3", "SIGKILL", "exit code 0 in the middle of its work (...)".
[[nodiscard]] std::string describe(const ProcessEnd& end);

class RankProcess {
 public:
  /// Starts `command`, with `variables` ("NAME=value") before those of this process, and with a pipe for its last word
  /// (base/last_word.h); the warden learns of it in `slot`.
  /// Returns once the program itself runs. Throws ConfigError when the command cannot be executed, RunError when the
  /// system lacks something.
  RankProcess(const std::vector<std::string>& command, const std::vector<std::string>& variables, const Warden& warden,
              int slot);
  /// Kills its group if reap() was not called.
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  [[nodiscard]] pid_t id() const { return id_; }
  /// Readable once the process has ended.
  [[nodiscard]] int exit_event() const { return exit_event_.get(); }
  /// Pipe from which its output is read. Reads do not block.
  [[nodiscard]] Descriptor& out() { return out_; }
  [[nodiscard]] Descriptor& err() { return err_; }

  /// Whether it was stopped (SIGSTOP and its kin) and not continued since.
  [[nodiscard]] bool is_stopped() const;
  /// Sends it to the whole group.
  void signal(int number) const;
  /// To be called once, after the exit event: kills what is left of the group, and says how the process ended.
  [[nodiscard]] ProcessEnd reap();

 private:
  const Warden& warden_;
  const int slot_;
  pid_t id_ = -1;
  Descriptor exit_event_, out_, err_, last_word_;
};

}  // namespace tandem::app
