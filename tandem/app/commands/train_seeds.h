// app/commands/train_seeds.h: `train --seeds N`: one run after the other that differ in the seed alone, and one report.
//
//   FOLDER/seed-1 ... FOLDER/seed-N    the runs
//   FOLDER/seeds.json                  what came of each, with the mean over them
//   FOLDER/curve.png                   their mean curve with its 95 % confidence interval
//
// Threads: the main one.
#pragma once
#include <functional>

#include "tandem/app/cli/command_line.h"
#include "tandem/app/exit_code.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// Trains `command.seeds` times by `train`, with the seeds from `seed` on, and prints the report. Runs that lie in the
/// folder already go on, and those that have ended stay: the same command again finishes what a signal stopped, and one
/// with more seeds adds runs. Ends at the first run that does not return kDone, with its exit code; a signal in the
/// last update of a run, which finishes that run, ends the command with kStopped where more runs are to come. Throws
/// ConfigError, before anything is made, when this process is a rank, when a single run lies in the folder, when a run
/// there was made with other settings, naming key, both values and its folder, and for faults of the run's settings.
[[nodiscard]] ExitCode train_seeds(const TrainCommand& command, const rl::EnvRegistry& environments,
                                   const std::function<ExitCode(const TrainCommand&)>& train);

}  // namespace tandem::app
