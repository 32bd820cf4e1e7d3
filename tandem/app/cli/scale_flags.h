// app/cli/scale_flags.h: the flags of `tandem simulate-scale`.
//
// Threads: single-thread. Ownership: the command must outlive the flags, and they the parsing.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tandem/app/simulate/scale_options.h"

namespace CLI {
class App;
}

namespace tandem::app {

/// Values stay texts until options() reads them, so that faults of all flags come in one message.
class ScaleFlags {
 public:
  /// Adds the flags to `command`.
  explicit ScaleFlags(CLI::App& command);

  /// Returns the flags that were given. Adds faults of their values to `faults`.
  /// Call it after parsing. A flag that was not given, or is at fault, leaves its default.
  [[nodiscard]] ScaleOptions options(std::vector<std::string>& faults) const;
  /// File into which a rank of a simulation writes its result. Empty in the process that starts the ranks.
  [[nodiscard]] const std::string& result() const { return texts_.at("--result"); }

 private:
  /// Adds one flag whose text lands in texts_; std::map keeps the address that CLI11 holds.
  void add(CLI::App& command, const std::string& flag, const char* takes, const char* help);

  std::map<std::string, std::string> texts_;  // by flag; empty: not given
};

}  // namespace tandem::app
