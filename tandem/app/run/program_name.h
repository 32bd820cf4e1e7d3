// app/run/program_name.h: what to call this program in advice to its user: "tandem", or the name of a program that has
// environments of its own compiled in (program.h); and how the process starts that program again.
//
// Threads: set once, before other threads are started.
#pragma once
#include <string>
#include <vector>

namespace tandem::app {

/// The reference stays valid for the life of the process.
[[nodiscard]] inline std::string& program_name() {
  static std::string name = "tandem";
  return name;
}

/// As it was called, with its folder when that was given, so that advice can be pasted. Empty: "tandem".
inline void set_program_name(const std::string& path) { program_name() = path.empty() ? "tandem" : path; }

/// The words that start this program again, before its arguments: as a rank, or as a worker of environments. An
/// interpreter that has loaded the program as a module is no such program, and sets others: itself, and the module's
/// name. They are used as they are, without a shell and without a search in PATH.
[[nodiscard]] inline std::vector<std::string>& own_command() {
  // This very program, also when it was found by PATH or is another main() than ours.
  static std::vector<std::string> words{"/proc/self/exe"};
  return words;
}

}  // namespace tandem::app
