// app/commands/start_ranks.h: a training command that starts its ranks itself, as `tandem launch` would.
//
// Threads: the main one.
//
// Blocking: start_ranks() until all ranks have ended. Signals are passed on to them by the supervisor
// (app/launch/supervisor.h).
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <vector>

#include "tandem/app/cli/command_line.h"
#include "tandem/app/config/train_options.h"
#include "tandem/app/exit_code.h"

namespace tandem::app {

/// Whether the command is to start ranks, rather than be one.
/// Throws ConfigError when --ranks 1 stands in a process that a launcher started as one of several.
[[nodiscard]] bool starts_ranks(const RanksAsked& asked);

/// Throws ConfigError when several ranks that one command line starts would share CUDA devices: they would take turns
/// on them, more slowly than one rank, and each with memory of its own.
void require_own_devices(const std::vector<c10::Device>& devices, int ranks);

/// Starts `asked.count` processes of this program on this machine with `asked.arguments`, and returns how they ended.
/// Before that calls `check`, which says what the ranks do when one dies and throws ConfigError for whatever else is
/// wrong with the command: all faults come in one ConfigError, and no process was started then.
[[nodiscard]] ExitCode start_ranks(const RanksAsked& asked, const std::function<Survivors()>& check);

}  // namespace tandem::app
