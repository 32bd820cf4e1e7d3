// app/commands/run_ranks.h: a command as all ranks of a launcher run it: rank 0 leads, the others follow it.
//
// Threads: the main one.
#pragma once
#include <functional>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/comm/world_words.h"
#include "tandem/learner/ranks.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// Rank 0's hold on the others, which wait for one of the two words.
class Leader {
 public:
  /// Both outlive it.
  Leader(const learner::Ranks& ranks, const StopSignals& signals) : ranks_(ranks), signals_(signals) {}

  [[nodiscard]] const learner::Ranks& ranks() const { return ranks_; }
  [[nodiscard]] const StopSignals& signals() const { return signals_; }
  /// All are to train this now.
  void send(const Configuration& configuration);
  /// All are to end with `code`; nothing when they train already.
  void dismiss(ExitCode code);

 private:
  const learner::Ranks& ranks_;
  const StopSignals& signals_;
  bool has_spoken_ = false;
};

/// Meets the ranks that were started with this one, as the environment and `words` say; runs `lead` on rank 0, and on
/// all others what it tells them. `flags`: of this rank's command line; others than --devices count on rank 0 only.
/// What the user can fix is said by rank 0 alone and ends all with its exit code; any other failure of one rank ends
/// the waits of all. From its begin on, signals ask for a stop (app/run/stop_signals.h): ranks that have met save the
/// same update and end with kStopped; a rank that waits for others to come ends so after five more seconds, and nothing
/// was begun. Throws what meeting and `lead` throw.
[[nodiscard]] ExitCode run_on_all_ranks(const comm::WorldWords& words, const std::vector<Setting>& flags,
                                        const rl::EnvRegistry& environments,
                                        const std::function<ExitCode(Leader&)>& lead);

}  // namespace tandem::app
