// app/commands/run_ranks.h: a command as all ranks of a launcher run it: rank 0 leads, the others follow it.
//
// Threads: the main one.
//
// A round is the time between two meetings: the ranks meet, rank 0 tells the others what to train, all train, and the
// round ends with the training or with a loss. Without survivors there is one round.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "tandem/app/commands/survival.h"
#include "tandem/app/config/configuration.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/base/cpu.h"
#include "tandem/comm/world_flags.h"
#include "tandem/learner/ranks.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// Rank 0's hold on the others, which wait for one of the two words.
/// Lives for one round, on its rank 0 only. The first word decides: dismiss() after send() does nothing.
class Leader {
 public:
  /// All outlive it. `instructions`: what the processors of all ranks have.
  Leader(const learner::Ranks& ranks, InstructionSet instructions, const StopSignals& signals, Survival& survival)
      : ranks_(ranks), instructions_(instructions), signals_(signals), survival_(survival) {}

  [[nodiscard]] const learner::Ranks& ranks() const { return ranks_; }
  [[nodiscard]] InstructionSet instructions() const { return instructions_; }
  [[nodiscard]] const StopSignals& signals() const { return signals_; }
  [[nodiscard]] Survival& survival() { return survival_; }
  /// All are to train this now, in this folder.
  /// Collective over the ranks that have met; starts the guard against losses where the options ask for survivors.
  /// Throws RunError when a rank is gone.
  void send(const Configuration& configuration, const std::filesystem::path& folder);
  /// All are to end with `code`; nothing when they train already.
  void dismiss(ExitCode code);

 private:
  const learner::Ranks& ranks_;
  const InstructionSet instructions_;
  const StopSignals& signals_;
  Survival& survival_;
  bool has_spoken_ = false;
};

/// Meets the ranks that were started with this one, as the environment and `words` say; runs `lead` on rank 0, and on
/// all others what it tells them. `flags`: of this rank's command line; others than --devices count on rank 0 only.
/// Where the run's ranks go on without one another (survivors), who is left when others died meets anew, with
/// those that were started for them, and the first of these leads what `lead` had begun.
/// What the user can fix is said by rank 0 alone and ends all with its exit code; any other failure of one rank ends
/// the waits of all. From its begin on, signals ask for a stop (app/run/stop_signals.h): ranks that have met save the
/// same update and end with kStopped; a rank that waits for others to come ends so after five more seconds, and nothing
/// was begun. `lead` returns nothing when the ranks are to meet anew. Throws what meeting and `lead` throw.
[[nodiscard]] ExitCode run_on_all_ranks(const comm::WorldFlags& words, const std::vector<Setting>& flags,
                                        const rl::EnvRegistry& environments,
                                        const std::function<std::optional<ExitCode>(Leader&)>& lead);

}  // namespace tandem::app
