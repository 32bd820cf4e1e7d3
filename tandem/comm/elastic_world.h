// comm/elastic_world.h: the worlds of a run whose ranks may die, fall behind and come back: a rendezvous
// (store/rendezvous.h), and for each of its rounds a world of the round's members.
//
//   ElasticWorld elastic(launcher_environment(), options);
//   World world = open_world(...);                       // unless elastic.joins()
//   elastic.begin(*world.group, limits);                 // from now on ranks may die
//   elastic.guard(world.group);
//   ... a peer is lost, or elastic.rendezvous().someone_waits(): throw the world away ...
//   const std::optional<Round> round = elastic.next_round(limits);
//   std::optional<World> next = elastic.open(*round, stop, notes);
//
// The ranks meet through the store of the run, which the launcher or rank 0 hosts; where rank 0 does, the run ends with
// its process. A process that was started again for a dead one joins at the next meeting.
//
// Threads: single-thread. Blocking: next_round() until `limits`, open() some seconds. Errors: those of Rendezvous and
// open_world().
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/comm/store/launcher_environment.h"
#include "tandem/comm/store/rendezvous.h"
#include "tandem/comm/world.h"

namespace tandem::comm {

/// Whether the failure is that other ranks are gone, or keep this one waiting. False for HungThread and StalledCall,
/// though both are kinds of DeadlineExceeded.
[[nodiscard]] bool is_loss_of_others(const std::exception& error);

class ElasticWorld {
 public:
  /// `options`: with which the ranks meet first. Asks the store when this process may be one that joins.
  ElasticWorld(LauncherEnvironment me, WorldOptions options, const Rendezvous::Options& meetings = {});

  /// Whether this process was started for one that died, while the others went on.
  [[nodiscard]] bool joins() const { return joins_; }
  [[nodiscard]] const LauncherEnvironment& me() const { return me_; }
  [[nodiscard]] const WorldOptions& options() const { return options_; }
  /// Made at the first call; heartbeats are written from then on.
  [[nodiscard]] Rendezvous& rendezvous();
  [[nodiscard]] bool has_rendezvous() const { return rendezvous_.has_value(); }
  /// Rendezvous::broken(); before there is one, a token that is never requested.
  [[nodiscard]] std::stop_token broken() const { return rendezvous_ ? rendezvous_->broken() : std::stop_token(); }

  /// Collective over all ranks, whose group it is: they are the members of round 0.
  void begin(Group& group, const Limits& limits);
  /// From now on the loss of a member of this round ends the waits in its group, whose members are processes.
  void guard(const std::shared_ptr<Group>& group);
  /// Who goes on, or whom this process joins; nothing when the run is over. Members that give signs of life are waited
  /// for until the limits' deadline; who has not come by then is left behind.
  [[nodiscard]] std::optional<Round> next_round(const Limits& limits);
  /// The world of that round, or nothing when a member died meanwhile: it is time for the next round; `notes` gets the
  /// reason.
  [[nodiscard]] std::optional<World> open(const Round& round, const std::stop_token& stop,
                                          std::vector<std::string>& notes);
  /// After LeftBehind: this process comes back as another life of its rank, and next_round() joins.
  void come_back();

 private:
  [[nodiscard]] bool is_begun() const;
  [[nodiscard]] std::unique_ptr<Store> connect(const std::stop_token& stop) const;

  const LauncherEnvironment me_;
  const WorldOptions options_;
  const Rendezvous::Options meetings_;
  bool joins_;
  int returns_ = 0;
  std::optional<Rendezvous> rendezvous_;
  std::optional<std::stop_callback<std::function<void()>>> guard_;  // last: it uses the others
};

}  // namespace tandem::comm
