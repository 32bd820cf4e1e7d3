// app/cli/tune_flags.h: the flags of `tandem tune` besides those of a training.
//
// Threads: single-thread. Ownership: the command must outlive the flags, and they the parsing.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/tune/tune_options.h"

namespace CLI {
class App;
}

namespace tandem::app {

class TuneFlags {
 public:
  /// Adds the flags to `command`.
  explicit TuneFlags(CLI::App& command);

  /// Returns the flags that were given. Adds faults of their values to `faults`.
  [[nodiscard]] TuneOptions options(std::vector<std::string>& faults) const;

 private:
  std::string vary_, rounds_, seconds_, output_;
};

}  // namespace tandem::app
