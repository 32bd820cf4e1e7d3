// app/cli/option_flags.h: the flags of a command that fill the option table.
//
// Threads: single-thread. Ownership: the command must outlive the flags, and they the parsing.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tandem/app/config/option_table.h"

namespace CLI {
class App;
}

namespace tandem::app {

/// Which options get a flag of their own.
enum class FlagSet {
  kTrain,   // all that have one
  kResume,  // those that may change when a run goes on
  kTune,    // those of kTrain that are not of one call of the program; and --quiet
};

class OptionFlags {
 public:
  /// Adds the flags, and --set key=value, to `command`.
  OptionFlags(CLI::App& command, FlagSet set);
  OptionFlags(const OptionFlags&) = delete;
  OptionFlags& operator=(const OptionFlags&) = delete;

  /// Returns the settings that were given, once the command line was parsed. Adds to `faults` a --set that has no key
  /// or no value.
  [[nodiscard]] std::vector<Setting> settings(std::vector<std::string>& faults) const;

 private:
  struct Given {
    std::string key;
    std::vector<std::string> values = {};  // one for each time that the flag was given
  };

  void add(CLI::App& command, const Option& option, const std::string& takes);

  std::map<std::string, Given> given_;  // by flag
  std::vector<std::string> sets_;
};

}  // namespace tandem::app
