// app/cli/launch_flags.h: the flags of `tandem launch`.
//
// Threads: single-thread. Ownership: the command must outlive the flags, and they the parsing.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tandem/app/launch/launch_options.h"

namespace CLI {
class App;
}

namespace tandem::app {

/// Values stay texts until options() reads them, so that faults of all flags come in one message.
class LaunchFlags {
 public:
  /// Adds the flags to `command`.
  explicit LaunchFlags(CLI::App& command);

  /// Returns the flags that were given, with `words`, the command behind "--". Adds faults of their values to `faults`.
  [[nodiscard]] LaunchOptions options(std::span<const std::string> words, std::vector<std::string>& faults) const;

 private:
  // empty: not given
  std::string ranks_, on_death_, grace_, max_restarts_;
};

/// A number of ranks. When it is none that can be, adds that to `faults`.
/// Returns 1 then, so that reading goes on.
[[nodiscard]] int read_ranks(const std::string& text, std::vector<std::string>& faults);

/// Where `arguments` of a launch end and the command begins: at the first "--", or behind the last argument.
/// Only `tandem launch` has such a command: in all other commands "--" is an argument like others.
[[nodiscard]] std::size_t launch_arguments(std::span<const std::string> arguments);

}  // namespace tandem::app
