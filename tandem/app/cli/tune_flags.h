// app/cli/tune_flags.h: the flags of `tandem tune` besides those of a training.
//
// Threads: single-thread. Ownership: the command must outlive the flags, and they the parsing.
//
// The words of --vary come from the knobs of all registered algorithms, so the flags are made after those are
// registered.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/tune/tune_options.h"

namespace CLI {
class App;
}

namespace tandem::app {

/// Values stay texts until options() reads them, so that faults of all flags come in one message.
class TuneFlags {
 public:
  /// Adds the flags to `command`.
  explicit TuneFlags(CLI::App& command);

  /// Returns the flags that were given. Adds faults of their values to `faults`.
  /// Call it after parsing. A flag that was not given, or is at fault, leaves its default.
  [[nodiscard]] TuneOptions options(std::vector<std::string>& faults) const;

 private:
  // empty: not given
  std::string vary_, rounds_, seconds_, output_;
};

}  // namespace tandem::app
