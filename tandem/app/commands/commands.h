// app/commands/commands.h: what each command of the program does, one file a command but for train and resume.
//
// Threads: the main one. They print their result to standard output; failures are exceptions (exit_code.h).
//
// ConfigError: what the user can fix, found before anything is changed where that is possible. RunError: what failed
// outside. A signal gives kStopped and no exception.
#pragma once
#include "tandem/app/cli/command_line.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/train/run_observer.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// One function for each alternative of Command; those that need no environments do not take them.
/// `environments`: those of the program, without plugins.
/// Trains until all steps are made or a signal comes. Starts the ranks itself with --ranks, else is the rank that its
/// launcher says. `observer`: of the program; it is called on the rank that leads.
[[nodiscard]] ExitCode run_command(const TrainCommand& command, const rl::EnvRegistry& environments,
                                   const RunObserver& observer);
/// Trains as `train` does, with the recorded options of the run.
[[nodiscard]] ExitCode run_command(const ResumeCommand& command, const rl::EnvRegistry& environments,
                                   const RunObserver& observer);
/// Reads a checkpoint only, and changes nothing in the run folder; so do inspect, top, plot and export.
[[nodiscard]] ExitCode run_command(const EvalCommand& command, const rl::EnvRegistry& environments);
/// Shows what lies in the folder; a run that still trains can be shown, too.
[[nodiscard]] ExitCode run_command(const InspectCommand& command);
/// Redraws twice a second on a terminal until the run ends or a signal comes; elsewhere prints once.
[[nodiscard]] ExitCode run_command(const TopCommand& command);
/// Draws all runs into one picture, or nothing when one of them is at fault.
[[nodiscard]] ExitCode run_command(const PlotCommand& command, const rl::EnvRegistry& environments);
/// Checks the names before it reads the checkpoint, which may take long.
[[nodiscard]] ExitCode run_command(const ExportCommand& command, const rl::EnvRegistry& environments);
/// Lists all environments, or describes one with the settings that are shipped for it.
/// Plays an environment with random actions and says what is wrong with it.
[[nodiscard]] ExitCode run_command(const CheckCommand& command, rl::EnvRegistry environments);
[[nodiscard]] ExitCode run_command(const EnvsCommand& command, rl::EnvRegistry environments);
/// A process that a training with isolate_envs started; ends with it.
[[nodiscard]] ExitCode run_command(const EnvWorkerCommand& command, const rl::EnvRegistry& environments);
/// Its exit code may also be that of a rank.
[[nodiscard]] ExitCode run_command(const LaunchCommand& command);
/// Blocks for as long as all simulated ranks sleep; one launch for each number of ranks.
[[nodiscard]] ExitCode run_command(const SimulateScaleCommand& command);
/// Blocks for all measured runs; a signal ends them early, and what was measured is printed with kStopped.
[[nodiscard]] ExitCode run_command(const TuneCommand& command, const rl::EnvRegistry& environments);
/// Prints what a report of a defect needs: versions, instructions, and what the build can exchange through.
[[nodiscard]] ExitCode run_command(const VersionCommand& command);

}  // namespace tandem::app
