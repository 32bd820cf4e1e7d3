// app/export/other_program.h: runs a program of the system, a compiler or a Python, to its end.
//
// Threads: any; the program has a process group of its own, so that Ctrl-C at a terminal reaches this one alone.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tandem::app {

struct ProgramEnd {
  /// Its exit code; -1 where a signal ended it.
  int code = 0;
  /// The last of what it wrote to standard output and to standard error.
  std::string said;
};

/// `words`: the program's path and its arguments. Blocks until its end, for at most `limit`: then it is killed, and a
/// RunError thrown, as where it cannot be started.
[[nodiscard]] ProgramEnd run_to_end(std::vector<std::string> words, std::chrono::seconds limit);

/// The first of the names that is a program in PATH, with its folder.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::vector<std::string>& names);

}  // namespace tandem::app
