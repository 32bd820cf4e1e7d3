// app/commands/start_ranks.h: a training command that starts its ranks itself, as `tandem launch` would.
//
// Threads: the main one.
#pragma once
#include <functional>

#include "tandem/app/cli/command.h"
#include "tandem/app/exit_code.h"

namespace tandem::app {

/// Whether the command is to start ranks, rather than be one.
[[nodiscard]] bool starts_ranks(const RanksAsked& asked);

/// Starts `asked.count` processes of this program on this machine with `asked.arguments`, and returns how they ended.
/// Before that calls `check`, which throws ConfigError for whatever else is wrong with the command: all faults come in
/// one ConfigError, and no process was started then.
[[nodiscard]] ExitCode start_ranks(const RanksAsked& asked, const std::function<void()>& check);

}  // namespace tandem::app
