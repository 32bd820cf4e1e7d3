// Survival. States of a rank: before start() it has no rendezvous unless it joins; start() opens one and begins the
// first round, or shares the newest state in a later one; meet_anew() leads from round to round; close() ends the run
// for all.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "tandem/app/commands/run_ranks.h"
#include "tandem/app/train/train.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/tcp_store.h"

namespace tandem::app {
namespace {

// How long the members of a round may take to build their group: all are there, and none of them does anything else.
constexpr std::chrono::seconds kGroupPatience{10};
// How long a rank that gives signs of life is waited for: as long as in a step.
constexpr std::chrono::minutes kLongestMeeting{5};
constexpr std::chrono::seconds kStorePatience{10};
constexpr int kMostFruitless = 3;

// The ranks of each host, by their numbers in the round.
std::vector<std::vector<int>> hosts_in(const std::vector<std::vector<int>>& hosts, const comm::Round& round) {
  std::vector<std::vector<int>> left;
  for (const std::vector<int>& ranks : hosts) {
    std::vector<int> its;
    for (std::size_t i = 0; i < round.members.size(); ++i) {
      if (std::find(ranks.begin(), ranks.end(), round.members[i].rank) != ranks.end())
        its.push_back(static_cast<int>(i));
    }
    if (!its.empty()) left.push_back(std::move(its));
  }
  return left;
}

}  // namespace

Survival::Survival(comm::LauncherEnvironment me, comm::WorldOptions options)
    : me_(std::move(me)), options_(std::move(options)), is_joiner_(is_begun()) {
  if (is_joiner_) open_rendezvous();
}

void Survival::open_rendezvous() {
  if (rendezvous_) return;
  const auto connect = [this](const std::stop_token& stop) {
    const std::unique_ptr<comm::Store> store =
        comm::connect_to_store(me_.master, {.deadline = Deadline::after(kStorePatience), .stop = stop});
    return comm::rendezvous_part(*store, me_.run_id, me_.restart_count);
  };
  rendezvous_.emplace(connect, comm::Life{me_.rank, me_.rank_restarts});
  // Asked between updates, so that a newcomer is let in at the end of one.
  kept_.someone_waits = [this] { return rendezvous_->someone_waits(); };
}

// Whether the ranks of this run have begun to train, and go on without one that died.
bool Survival::is_begun() const {
  if (me_.rank_restarts == 0 || me_.world_size == 1) return false;
  const std::unique_ptr<comm::Store> store =
      comm::connect_to_store(me_.master, {.deadline = Deadline::after(kStorePatience), .stop = {}});
  return comm::Rendezvous::has_begun(*comm::rendezvous_part(*store, me_.run_id, me_.restart_count));
}

void Survival::start(const learner::Ranks& ranks, std::chrono::milliseconds deadline) {
  if (me_.world_size == 1) return;  // nobody else is there to go on
  open_rendezvous();
  rendezvous_->set_deadline(deadline);
  if (has_started_ || is_joiner_) {
    has_started_ = true;
    share_newest(ranks, kept_);
    return;
  }
  std::vector<comm::Life> all;
  for (const std::vector<double>& restarts : ranks.gather({static_cast<double>(me_.rank_restarts)}))
    all.push_back({static_cast<int>(all.size()), static_cast<int>(restarts.front())});
  rendezvous_->begin(std::move(all));
  has_started_ = true;
  guard(ranks);
}

// The group of the ranks sees by itself the death of a process; that one is silent it does not.
void Survival::guard(const learner::Ranks& ranks) {
  // The old callback first: it would end the waits of a group that is gone.
  guard_.reset();
  if (!rendezvous_) return;
  guard_.emplace(rendezvous_->broken(), [this, group = std::weak_ptr(ranks.group())] {
    if (const std::shared_ptr<comm::Group> left = group.lock()) left->abort(rendezvous_->why_broken());
  });
}

bool Survival::can_go_on(const std::exception& error) const { return has_started_ && is_loss_of_others(error); }

std::optional<comm::World> Survival::meet_anew(const std::stop_token& stop) {
  noticed_ = Clock::now();
  while (true) {
    const Limits limits{.deadline = Deadline::after(kLongestMeeting), .stop = stop};
    const bool joins = is_joiner_ && rendezvous_->round().members.empty();
    const std::optional<comm::Round> round = joins ? rendezvous_->join(limits) : rendezvous_->meet(limits);
    if (!round) return std::nullopt;
    require_change(*round);
    note(*round);
    // Without a world somebody died while the group was built: meet again.
    if (std::optional<comm::World> world = open_round(*round, stop)) return world;
  }
}

// Nothing when one of them died meanwhile: it is time for the next round.
std::optional<comm::World> Survival::open_round(const comm::Round& round, const std::stop_token& stop) {
  comm::LauncherEnvironment me = me_;
  // The round numbers its members from 0 without gaps; the run's own numbers stay in me_.
  me.rank = round.mine;
  me.world_size = static_cast<int>(round.members.size());
  me.run_id += concat("/round-", round.number);
  me.launcher_hosts_store = true;  // whoever hosts it does so since the first round
  comm::WorldOptions options = options_;
  options.hosts = hosts_in(options_.hosts, round);
  std::stop_source either;
  const std::stop_callback told(stop, [&either] { either.request_stop(); });
  const std::stop_callback broken(rendezvous_->broken(), [&either] { either.request_stop(); });
  options.limits = {.deadline = Deadline::after(kGroupPatience), .stop = either.get_token()};
  if (options.device < 0) options.device = me_.local_rank;
  try {
    return comm::open_world(me, options);
  } catch (const RunError& error) {
    const bool is_loss = is_loss_of_others(error) || rendezvous_->broken().stop_requested();
    if (stop.stop_requested() || !is_loss) throw;
    notes.push_back(concat("round ", round.number, " came to nothing: ", error.what()));
    return std::nullopt;
  }
}

// Ranks that fail again and again without an update in between would do so for ever.
void Survival::require_change(const comm::Round& round) {
  // A round after which nobody was lost, nobody came and no update was made has changed nothing.
  const bool has_changed = !round.lost.empty() || !round.joined.empty() || kept_.updates > met_at_;
  fruitless_ = has_changed ? 0 : fruitless_ + 1;
  met_at_ = kept_.updates;
  if (fruitless_ < kMostFruitless) return;
  throw RunError(concat("the ranks lost each other ", kMostFruitless, " times after update ", kept_.updates,
                        " though none of them died: likely the network between them does not hold"));
}

void Survival::note(const comm::Round& round) {
  for (const comm::Round::Loss& loss : round.lost) {
    const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - noticed_).count();
    notes.push_back(concat("rank ", loss.who.rank, " is lost (", loss.how, "), noticed ", ago, " ms ago"));
  }
  for (const comm::Life& who : round.joined)
    notes.push_back(concat("rank ", who.rank, " has joined, started again ", who.restarts, " time(s)"));
  notes.push_back(concat("the run goes on with rank(s) ", joined(round.members, &comm::Life::rank), " of ",
                         me_.world_size, ", which are numbered anew in this order: round ", round.number));
}

void Survival::close() {
  if (has_started_ && rendezvous_) rendezvous_->close();
}

// The gather serves as a barrier; its numbers mean nothing.
void Survival::wait_for_the_record(const learner::Ranks& ranks) {
  if (!has_started_) return;
  try {
    (void)ranks.gather({0.0});
  } catch (const RunError& error) {
    if (!is_loss_of_others(error) || !rendezvous_->end_without_the_silent()) throw;
  }
}

}  // namespace tandem::app
