// app/commands/run_ranks.h: a command as all ranks of a launcher run it: rank 0 leads, the others follow it.
//
// Threads: the main one.
#pragma once
#include <functional>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/exit_code.h"
#include "tandem/learner/ranks.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// Meets the ranks that were started with this one, as the environment says, and runs `lead` on rank 0 and on all
/// others what it tells them by send_configuration() or dismiss(). `flags`: of this rank's command line; others than
/// --devices count on rank 0 only. A failure of one rank ends the waits of all. Throws what meeting and `lead` throw.
[[nodiscard]] ExitCode run_on_all_ranks(const std::vector<Setting>& flags, const rl::EnvRegistry& environments,
                                        const std::function<ExitCode(const learner::Ranks&)>& lead);

/// From rank 0: what all are to train.
void send_configuration(const learner::Ranks& ranks, const Configuration& configuration);
/// From rank 0, instead: there is nothing to do.
void dismiss(const learner::Ranks& ranks);

}  // namespace tandem::app
