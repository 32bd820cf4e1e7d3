#include "tandem/comm/elastic_world.h"

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/run_store.h"

namespace tandem::comm {
namespace {

// How long the members of a round may take to build their group: all are there, and none of them does anything else.
constexpr std::chrono::seconds kGroupPatience{10};
constexpr std::chrono::seconds kStorePatience{10};
// A life that comes back is no life that a launcher starts: these count from 1.
constexpr int kReturned = 1'000'000;

// The ranks of each host, by their numbers in the round.
std::vector<std::vector<int>> hosts_in(const std::vector<std::vector<int>>& hosts, const Round& round) {
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

bool is_loss_of_others(const std::exception& error) {
  // Both of these derive from errors that the second test accepts, so they are excluded first.
  if (dynamic_cast<const HungThread*>(&error) != nullptr || dynamic_cast<const StalledCall*>(&error) != nullptr)
    return false;
  return dynamic_cast<const PeerLost*>(&error) != nullptr || dynamic_cast<const GroupAborted*>(&error) != nullptr ||
         dynamic_cast<const DeadlineExceeded*>(&error) != nullptr;
}

ElasticWorld::ElasticWorld(LauncherEnvironment me, WorldOptions options, const Rendezvous::Options& meetings)
    : me_(with_wishes(std::move(me), options)), options_(std::move(options)), meetings_(meetings), joins_(is_begun()) {
  if (joins_) (void)rendezvous();
}

std::unique_ptr<Store> ElasticWorld::connect(const std::stop_token& stop) const {
  const Limits limits{.deadline = Deadline::after(kStorePatience), .stop = stop};
  const std::unique_ptr<Store> store = connect_to_store(place_of_store(me_, limits), limits);
  return rendezvous_part(*store, me_.run_id, me_.restart_count);
}

// Whether the ranks of this run have begun to train, and go on without one that died.
bool ElasticWorld::is_begun() const {
  return me_.rank_restarts > 0 && me_.world_size > 1 && Rendezvous::has_begun(*connect({}));
}

Rendezvous& ElasticWorld::rendezvous() {
  const Life life{me_.rank, me_.rank_restarts + returns_ * kReturned};
  if (!rendezvous_) rendezvous_.emplace([this](const std::stop_token& stop) { return connect(stop); }, life, meetings_);
  return *rendezvous_;
}

void ElasticWorld::begin(Group& group, const Limits& limits) {
  fault_point("elastic_world.begin");
  std::vector<double> restarts(static_cast<std::size_t>(group.size()));
  group.all_gather(std::vector<double>{static_cast<double>(me_.rank_restarts)}, restarts, limits);
  std::vector<Life> all;
  for (const double its : restarts) all.push_back({static_cast<int>(all.size()), static_cast<int>(its)});
  rendezvous().begin(std::move(all));
}

// The group of the ranks sees by itself the death of a process; that one is silent it does not.
void ElasticWorld::guard(const std::shared_ptr<Group>& group) {
  // The old callback first: it would end the waits of a group that is gone.
  guard_.reset();
  if (!rendezvous_) return;
  guard_.emplace(rendezvous_->broken(), [this, guarded = std::weak_ptr(group)] {
    if (const std::shared_ptr<Group> left = guarded.lock()) left->abort(rendezvous_->why_broken());
  });
}

std::optional<Round> ElasticWorld::next_round(const Limits& limits) {
  const bool enters_first = joins_ && rendezvous().round().members.empty();
  return enters_first ? rendezvous().join(limits) : rendezvous().meet(limits);
}

// Nothing when one of them died meanwhile: it is time for the next round.
std::optional<World> ElasticWorld::open(const Round& round, const std::stop_token& stop,
                                        std::vector<std::string>& notes) {
  LauncherEnvironment me = me_;
  // The round numbers its members from 0 without gaps; the run's own numbers stay in me_.
  me.rank = round.mine;
  me.world_size = static_cast<int>(round.members.size());
  me.run_id += concat("/round-", round.number);
  me.launcher_hosts_store = true;  // whoever hosts it does so since the first round
  WorldOptions options = options_;
  options.hosts = hosts_in(options_.hosts, round);
  std::stop_source either;
  const std::stop_callback told(stop, [&either] { either.request_stop(); });
  const std::stop_callback broken(rendezvous_->broken(), [&either] { either.request_stop(); });
  options.limits = {.deadline = Deadline::after(kGroupPatience), .stop = either.get_token()};
  if (options.device < 0) options.device = me_.local_rank;
  try {
    return open_world(me, options);
  } catch (const RunError& error) {
    const bool is_loss = is_loss_of_others(error) || rendezvous_->broken().stop_requested();
    if (stop.stop_requested() || !is_loss) throw;
    notes.push_back(concat("round ", round.number, " came to nothing: ", error.what()));
    return std::nullopt;
  }
}

void ElasticWorld::come_back() {
  guard_.reset();
  rendezvous_.reset();
  ++returns_;
  joins_ = true;
}

}  // namespace tandem::comm
