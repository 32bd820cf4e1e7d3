// app/run/program_name.h: what to call this program in advice to its user: "tandem", or the name of a program that has
// environments of its own compiled in (program.h).
//
// Threads: set once, before other threads are started.
#pragma once
#include <filesystem>
#include <string>

namespace tandem::app {

/// The reference stays valid for the life of the process.
[[nodiscard]] inline std::string& program_name() {
  static std::string name = "tandem";
  return name;
}

/// As it was called: the last part of `path` counts. Empty: "tandem".
inline void set_program_name(const std::string& path) {
  const std::string last = std::filesystem::path(path).filename().string();
  program_name() = last.empty() ? "tandem" : last;
}

}  // namespace tandem::app
