// app/run/program_name.h: what to call this program in advice to its user: "tandem", or the name of a program that has
// environments of its own compiled in (program.h).
//
// Threads: set once, before other threads are started.
#pragma once
#include <string>

namespace tandem::app {

/// The reference stays valid for the life of the process.
[[nodiscard]] inline std::string& program_name() {
  static std::string name = "tandem";
  return name;
}

/// As it was called, with its folder when that was given, so that advice can be pasted. Empty: "tandem".
inline void set_program_name(const std::string& path) { program_name() = path.empty() ? "tandem" : path; }

}  // namespace tandem::app
