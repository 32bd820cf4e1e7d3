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
/// All three read keys of the same option table, so a flag means the same in each command.
enum class FlagSet {
  kTrain,   // all that have one
  kResume,  // those that may change when a run goes on
  kTune,    // those of kTrain that are not of one call of the program; and --quiet
};

/// Not copyable: CLI11 holds pointers to the members that parsing fills.
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
  /// An option that has a flag, and its texts in the order of the command line.
  struct Given {
    std::string key;
    std::vector<std::string> values = {};  // one for each time that the flag was given
  };

  /// Adds one flag; `takes` stands in the help where a value stands. A switch that is off by default takes no value.
  void add(CLI::App& command, const Option& option, const std::string& takes);

  // std::map, since CLI11 holds addresses of the values
  std::map<std::string, Given> given_;  // by flag
  std::vector<std::string> sets_;
};

}  // namespace tandem::app
