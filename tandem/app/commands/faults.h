// app/commands/faults.h: all that the user can fix in a command, said at once.
#pragma once
#include <string>
#include <vector>

#include "tandem/base/error.h"

namespace tandem::app {

/// Collects what the user can fix; other errors pass through.
class Faults {
 public:
  template <typename Check>
  void collect(const Check& check) {
    try {
      check();
    } catch (const ConfigError& error) {
      for (const std::string& fault : error.faults()) add(fault);
    }
  }
  void add(std::string fault) { faults_.push_back(std::move(fault)); }
  /// Throws ConfigError where there are any.
  void raise() const {
    if (!faults_.empty()) throw ConfigError(faults_);
  }

 private:
  std::vector<std::string> faults_;
};

}  // namespace tandem::app
