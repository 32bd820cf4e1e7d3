// app/cli/unknown_flags.h: answers words of a command line that no command takes.
//
// Threads: free functions.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tandem::app {

/// The faults of arguments that no flag or positional took, each with what was most likely meant. Values behind unknown
/// flags are left out: the flag is the fault. `train`: the command with most flags, which users try behind others.
[[nodiscard]] std::vector<std::string> unknown_faults(const CLI::App& command, const CLI::App& train);

}  // namespace tandem::app
