// tests/support/child.h: a program that a test starts, and may signal or kill.
//
// Threads: single-thread; start children from the thread that outlives them (they are killed when it ends).
// Errors: std::runtime_error when the system refuses, or when a child does not end within kPatience; it is then killed.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::process_test {

/// Far more than any of the runs takes on a busy machine: it only ends what hangs.
inline constexpr std::chrono::minutes kPatience{10};

struct Command {
  std::filesystem::path program;  // looked for in PATH when it is a mere name
  std::vector<std::string> arguments;
  std::vector<std::string> environment = {};  // "NAME=value", before what this process has
  std::filesystem::path folder = {};          // where it runs; empty: here
  /// Runs in the new process before the program does. Only system calls: no memory, no locks.
  std::function<void()> prepare = {};
};

/// How a child ended and what it printed.
struct Ended {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string out, err;

  [[nodiscard]] std::string how() const;  // "exit code 2", "signal 11"
};

class Child {
 public:
  explicit Child(const Command& command);
  /// Kills it if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t id() const { return process_; }
  /// Whether it has not ended yet. Never waits.
  [[nodiscard]] bool is_running();
  /// Sends it a signal, if it still runs.
  void signal(int number);
  /// Waits until it ends.
  Ended wait();

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  std::string name_;
  File out_, err_;
  pid_t process_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// Starts it and waits until it ends.
Ended run(const Command& command);

}  // namespace tandem::process_test
