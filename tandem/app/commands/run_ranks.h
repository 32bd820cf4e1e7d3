// app/commands/run_ranks.h: a command as all ranks of a launcher run it: rank 0 leads, the others follow it; and what a
// rank needs to go on with a training when others die.
//
// Threads: the main one.
//
// A round is the time between two meetings: the ranks meet, rank 0 tells the others what to train, all train, and the
// round ends with the training or with a loss. Without survivors there is one round.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/app/train/run_observer.h"
#include "tandem/base/clock.h"
#include "tandem/base/cpu.h"
#include "tandem/comm/elastic_world.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/world.h"
#include "tandem/comm/world_flags.h"
#include "tandem/learner/ranks.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// The settings of the training, for the rank that leads next.
struct Assignment {
  std::string config;            // the text of config.yaml
  std::filesystem::path folder;  // of the run
};

/// The state after the last complete update, and a place where those that are left meet (comm/store/rendezvous.h). One
/// for each process, over all rounds. Before start() a loss ends the run, as it does without survivors.
///
///   Survival survival(me, options);
///   ... meet, agree on what to train ...
///   survival.start(ranks, deadline);  // at the begin of each training, on all ranks
///   ... others die, or somebody wants to join: the training returns ...
///   world = survival.meet_anew(stop);
///
/// The ranks meet through the store of the run. A rank that was started again for a dead one joins at the next meeting
/// and gets the newest state from the others. Blocking, errors: those of comm::Rendezvous and comm::open_world().
class Survival {
 public:
  /// `options`: with which the ranks met first. Asks the store when this process may be one that joins.
  Survival(comm::LauncherEnvironment me, comm::WorldOptions options);

  /// Whether this process was started for one that died, while the others went on.
  [[nodiscard]] bool joins() const { return is_joiner_; }
  /// Collective. The first time: from now on ranks may die. Later: all get the newest state that any of them has.
  /// `deadline`: without a sign of life, after which a rank is taken for lost.
  void start(const learner::Ranks& ranks, std::chrono::milliseconds deadline);
  /// From now on a loss ends the waits of these ranks, which are those of the newest round; nothing before the first
  /// start(), which calls it.
  void guard(const learner::Ranks& ranks) { world_.guard(ranks.group()); }
  /// The state that this rank has kept; null before start().
  [[nodiscard]] KeptState* kept() { return has_started_ ? &kept_ : nullptr; }
  /// Whether those that are left meet after this failure.
  /// Only the loss of other ranks can be survived: an error of this rank's own ends it.
  [[nodiscard]] bool can_go_on(const std::exception& error) const;

  /// Requested soon after a rank of this round has died or fallen silent; see comm::Rendezvous::broken(). Of no use
  /// before start().
  [[nodiscard]] std::stop_token broken() const { return has_started_ ? world_.broken() : std::stop_token(); }

  /// The world of those that go on, or of those that this process joins. Nothing when the run is over.
  /// Waits for the ranks that give signs of life; a meeting that finds others lost meanwhile is followed by the next.
  /// Throws RunError when `stop` is requested, or when ranks meet three times in a row without a loss, a newcomer or an
  /// update.
  [[nodiscard]] std::optional<comm::World> meet_anew(const std::stop_token& stop);
  /// The training has ended with its record complete: all steps are made, or it was stopped.
  /// Rank 0 calls it before wait_for_the_record(): ranks that come later find the run over, and a launcher does not
  /// count a death from then on as a failure.
  void close();
  /// Collective. Returns when the record is complete, which rank 0 says by close(). Who is lost from then on is not
  /// waited for, and ends no other rank's run.
  void wait_for_the_record(const learner::Ranks& ranks);

  Assignment assignment;
  /// Why the ranks met last, who was lost and who came: for the log of the rank that leads next, which takes them.
  std::vector<std::string> notes;

 private:
  void require_change(const comm::Round& round);
  void note(const comm::Round& round);

  comm::ElasticWorld world_;
  KeptState kept_;
  // since start() has been called: kept_ holds a state from then on
  bool has_started_ = false;
  const bool is_joiner_;
  int fruitless_ = 0;         // meetings in a row after which nothing had changed
  std::int64_t met_at_ = -1;  // updates at the last meeting
  Clock::time_point noticed_ = Clock::now();
};

/// The vector instructions of a rank's processor. Another set gives other last bits, so ranks that each took their own
/// best would have the numbers of no single machine, and, where each updates parameters of its own, drift apart. There
/// are two sets: Tandem's own loops, which can be told to use a lower one, and LibTorch's, which is fixed once LibTorch
/// has chosen. So the former is agreed on, and the latter must agree (common_instructions.cc).
struct InstructionsOfRank {
  InstructionSet own = InstructionSet::kPortable;  // the most that Tandem's loops could use there
  std::string libtorch = {};                       // what LibTorch has chosen for itself, as it calls it
};

/// Returns the instructions of each rank. Collective.
/// Element r is of rank r. Waits for all ranks; throws as Ranks::gather() does.
[[nodiscard]] std::vector<InstructionsOfRank> instructions_of(const learner::Ranks& ranks);

/// The most that all have of Tandem's.
/// `of_ranks` has at least one element.
[[nodiscard]] InstructionSet lowest_of(const std::vector<InstructionsOfRank>& of_ranks);

/// Throws ConfigError where LibTorch has not chosen alike, naming what it chose on each rank and the variable that has
/// it.
void require_one_choice(const std::vector<InstructionsOfRank>& of_ranks);

/// The parts of the program that main() brought, as run_program() was given them; all outlive it. Every rank has its
/// own, since every rank is a process with the same main().
struct OfProgram {
  const rl::EnvRegistry& environments;  // without plugins
  const RunObserver& observer;          // of the rank that leads
  /// Where the clock of the run starts (wall_s): seconds after the process started; 0: with it. Not 0 where a process
  /// makes one run after the other.
  double clock_from = 0;
};

/// Rank 0's hold on the others, which wait for one of the two words, and what it leads with.
/// Lives for one round, on its rank 0 only. The first word decides: dismiss() after send() does nothing.
struct Leader {
  const learner::Ranks& ranks;
  const InstructionSet instructions;    // what the processors of all ranks have
  const rl::EnvRegistry& environments;  // of the program, without plugins
  const RunObserver& observer;
  const StopSignals& signals;
  Survival& survival;
  const double clock_from = 0;  // as of OfProgram
  bool has_spoken = false;

  /// All are to train this now, in this folder.
  /// Collective over the ranks that have met; starts the guard against losses where the options ask for survivors.
  /// Throws RunError when a rank is gone.
  void send(const Configuration& configuration, const std::filesystem::path& folder);
  /// All are to end with `code`; nothing when they train already.
  void dismiss(ExitCode code);
};

/// Rank 0's work in a round. Returns nothing when the ranks are to meet anew.
using Lead = std::function<std::optional<ExitCode>(Leader&)>;

/// Meets the ranks that were started with this one, as the environment and `words` say; runs `lead` on rank 0, and on
/// all others what it tells them. `flags`: of this rank's command line; others than --devices count on rank 0 only.
/// Where the run's ranks go on without one another (survivors), who is left when others died meets anew, with
/// those that were started for them, and the first of these leads what `lead` had begun.
/// What the user can fix is said by rank 0 alone and ends all with its exit code; any other failure of one rank ends
/// the waits of all. From its begin on, signals ask for a stop (app/run/stop_signals.h): ranks that have met save the
/// same update and end with kStopped; a rank that waits for others to come ends so after five more seconds, and nothing
/// was begun. Throws what meeting and `lead` throw.
[[nodiscard]] ExitCode run_on_all_ranks(const comm::WorldFlags& words, const std::vector<Setting>& flags,
                                        const OfProgram& program, const Lead& lead);

}  // namespace tandem::app
