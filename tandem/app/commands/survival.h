// app/commands/survival.h: what a rank needs to go on with a training when others die: the state after the last
// complete update, and a place where those that are left meet (comm/rendezvous.h).
//
//   Survival survival(me, options);
//   ... meet, agree on what to train ...
//   survival.start(ranks, deadline);  // at the begin of each training, on all ranks
//   ... others die, or somebody wants to join: the training returns ...
//   world = survival.meet_anew(stop);
//
// Threads: the main one. Blocking, errors: those of comm::Rendezvous and comm::open_world().
//
// The ranks meet through the store of the run. A rank that was started again for a dead one joins at the next meeting
// and gets the newest state from the others.
#pragma once
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/app/train/kept_state.h"
#include "tandem/base/clock.h"
#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/rendezvous.h"
#include "tandem/comm/world.h"
#include "tandem/learner/ranks.h"

namespace tandem::app {

/// The settings of the training, for the rank that leads next.
struct Assignment {
  std::string config;            // the text of config.yaml
  std::filesystem::path folder;  // of the run
};

/// One for each process, over all rounds. Before start() a loss ends the run, as it does without survivors.
class Survival {
 public:
  /// `options`: with which the ranks met first. Asks the store when this process may be one that joins.
  Survival(comm::LauncherEnvironment me, comm::WorldOptions options);

  /// Ranks of the run when none is missing.
  [[nodiscard]] int size_of_run() const { return me_.world_size; }
  /// Whether this process was started for one that died, while the others went on.
  [[nodiscard]] bool joins() const { return is_joiner_; }
  /// Collective. The first time: from now on ranks may die. Later: all get the newest state that any of them has.
  /// `deadline`: without a sign of life, after which a rank is taken for lost.
  void start(const learner::Ranks& ranks, std::chrono::milliseconds deadline);
  /// From now on a loss ends the waits of these ranks, which are those of the newest round; nothing before the first
  /// start(), which calls it.
  void guard(const learner::Ranks& ranks);
  /// The state that this rank has kept; null before start().
  [[nodiscard]] KeptState* kept() { return has_started_ ? &kept_ : nullptr; }
  /// Whether those that are left meet after this failure.
  /// Only the loss of other ranks can be survived: an error of this rank's own ends it.
  [[nodiscard]] bool can_go_on(const std::exception& error) const;

  /// Requested soon after a rank of this round has died or fallen silent; see comm::Rendezvous::broken(). Of no use
  /// before start().
  [[nodiscard]] std::stop_token broken() const { return has_started_ ? rendezvous_->broken() : std::stop_token(); }
  /// Why the ranks meet, for the log.
  void note_cause(const std::exception& error);

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

  /// Why the ranks met last, who was lost and who came, for the log.
  /// The notes are handed out once.
  [[nodiscard]] std::vector<std::string> take_notes();

  Assignment assignment;

 private:
  [[nodiscard]] bool is_begun() const;
  void open_rendezvous();
  [[nodiscard]] std::optional<comm::World> open_round(const comm::Round& round, const std::stop_token& stop);
  void require_change(const comm::Round& round);
  void note(const comm::Round& round);

  const comm::LauncherEnvironment me_;
  const comm::WorldOptions options_;
  std::optional<comm::Rendezvous> rendezvous_;
  KeptState kept_;
  // since start() has been called: kept_ holds a state from then on
  bool has_started_ = false;
  const bool is_joiner_;
  int fruitless_ = 0;         // meetings in a row after which nothing had changed
  std::int64_t met_at_ = -1;  // updates at the last meeting
  Clock::time_point noticed_ = Clock::now();
  std::vector<std::string> notes_;
  std::optional<std::stop_callback<std::function<void()>>> guard_;  // last: it uses the others
};

}  // namespace tandem::app
