// app/run/other_program.h: programs of the system: where one is, how it is run to its end, and what it said.
//
// Threads: any. A program that is run here has a process group of its own, so that Ctrl-C at a terminal reaches this
// one alone.
#pragma once
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/descriptor.h"

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

/// Whether `path` is a file that this process may execute.
[[nodiscard]] bool is_program(const std::filesystem::path& path);
/// The first of the names that is a program in PATH, as an absolute path. A link is not followed: the one in a virtual
/// environment of Python is what makes it that environment's.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::vector<std::string>& names);

/// The end of a file that a program wrote its messages to, where what is wrong stands, without the last line feeds.
[[nodiscard]] std::string last_said(const Descriptor& file);

}  // namespace tandem::app
