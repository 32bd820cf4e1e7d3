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

class LaunchFlags {
 public:
  /// Adds the flags to `command`.
  explicit LaunchFlags(CLI::App& command);

  /// Returns the flags that were given, with `words`, the command behind "--". Adds faults of their values to `faults`.
  [[nodiscard]] LaunchOptions options(std::span<const std::string> words, std::vector<std::string>& faults) const;

 private:
  std::string ranks_, on_death_, grace_, max_restarts_;
};

/// A number of ranks. When it is none that can be, adds that to `faults`.
[[nodiscard]] int read_ranks(const std::string& text, std::vector<std::string>& faults);

/// Where `arguments` of a launch end and the command begins: at the first "--", or behind the last argument.
[[nodiscard]] std::size_t launch_arguments(std::span<const std::string> arguments);

}  // namespace tandem::app
