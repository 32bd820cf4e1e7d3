// tests/inputs/child.h: runs a program as users do, and tells how it ended.
//
// Threads: single-thread, since it forks. Blocks until the program has ended; one that takes longer than
// Child::patience is killed, which its Outcome says.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem::testing {

struct Child {
  std::vector<std::string> words;  // the program, looked for in PATH, and its arguments
  std::filesystem::path folder;    // where it runs
  /// Runs in the new process before the program does. Only system calls: no memory, no locks.
  std::function<void()> prepare = {};
  std::chrono::seconds patience{120};
};

struct Outcome {
  std::optional<int> code;  // nothing: a signal ended it
  std::string end;          // in words: "exit code 2", "signal 11", "killed: no end within 120 s"
  std::string out, err;
};

/// Throws std::system_error when no process can be made.
[[nodiscard]] Outcome run(const Child& child);

}  // namespace tandem::testing
