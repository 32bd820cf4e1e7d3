// app/cli/command_line.h: reads the command line.
//
// Threads: single-thread.
#pragma once
#include <span>
#include <string>

#include "tandem/app/cli/command.h"

namespace tandem::app {

/// `arguments`: those behind the program's name. Throws ConfigError with all faults, unknown flags and commands with
/// the nearest that there is. The faults of a TrainCommand's flags are in it, to be reported with those of its files.
[[nodiscard]] Command read_command_line(std::span<const std::string> arguments);

}  // namespace tandem::app
