// app/cli/command_line.h: reads the command line.
//
// Threads: single-thread.
//
// --help and --version are results, too, and not exceptions: the caller prints them and ends with code 0.
#pragma once
#include <span>
#include <string>

#include "tandem/app/cli/command.h"

namespace tandem::app {

/// `arguments`: those behind the program's name. Throws ConfigError with all faults, unknown flags and commands with
/// the nearest that there is. The faults of a TrainCommand's flags are in it, to be reported with those of its files.
/// Nothing is looked up but whether a CONFIG file exists. CLI11 is private to the .cc files of this folder.
[[nodiscard]] Command read_command_line(std::span<const std::string> arguments);

}  // namespace tandem::app
