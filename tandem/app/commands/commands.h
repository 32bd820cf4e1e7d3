// app/commands/commands.h: what each command of the program does, one file a command.
//
// Threads: the main one. They print their result to standard output; failures are exceptions (exit_code.h).
#pragma once
#include "tandem/app/cli/command.h"
#include "tandem/app/exit_code.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// `environments`: those of the program, without plugins.
[[nodiscard]] ExitCode run_train(const TrainCommand& command, const rl::EnvRegistry& environments);
[[nodiscard]] ExitCode run_resume(const ResumeCommand& command, const rl::EnvRegistry& environments);
[[nodiscard]] ExitCode run_eval(const EvalCommand& command, const rl::EnvRegistry& environments);
[[nodiscard]] ExitCode run_inspect(const InspectCommand& command);
[[nodiscard]] ExitCode run_top(const TopCommand& command);
[[nodiscard]] ExitCode run_plot(const PlotCommand& command, const rl::EnvRegistry& environments);
[[nodiscard]] ExitCode run_export(const ExportCommand& command, const rl::EnvRegistry& environments);
[[nodiscard]] ExitCode run_envs(const EnvsCommand& command, rl::EnvRegistry environments);
/// Its exit code may also be that of a rank.
[[nodiscard]] ExitCode run_launch(const LaunchCommand& command);
[[nodiscard]] ExitCode run_simulate_scale(const SimulateScaleCommand& command);
[[nodiscard]] ExitCode run_tune(const TuneCommand& command, const rl::EnvRegistry& environments);
[[nodiscard]] ExitCode run_version(const VersionCommand& command);

}  // namespace tandem::app
