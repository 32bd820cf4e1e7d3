// app/cli/command_flags.h: the flags of the commands that have many: launch, simulate-scale, tune.
//
// Threads: single-thread. Each function adds flags to `command` that fill `options` once the command line was parsed;
// the check_ functions, called afterwards, add what is wrong with several values together, or with a part of one, to
// `faults`.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/cli/command_line.h"
#include "tandem/app/cli/flags.h"

namespace tandem::app {

void add_launch_flags(CLI::App& command, LaunchOptions& options, FieldFlags& flags);
/// With the command behind "--" in `options`.
void check_launch(const LaunchOptions& options, const FieldFlags& flags, std::vector<std::string>& faults);

void add_scale_flags(CLI::App& command, ScaleOptions& options, FieldFlags& flags);
void check_scale(const ScaleOptions& options, const FieldFlags& flags, std::vector<std::string>& faults);

/// The words of --vary come from the knobs of all registered algorithms, so the flags are made after those are
/// registered. Whether the run's own algorithm has such a knob is found out later.
void add_tune_flags(CLI::App& command, TuneOptions& options, FieldFlags& flags);

/// Adds --ranks, a number of ranks that can be.
void add_ranks_flag(CLI::App& command, int& ranks, const char* help, FieldFlags& flags);

}  // namespace tandem::app
