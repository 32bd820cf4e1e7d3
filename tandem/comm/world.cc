#include "tandem/comm/world.h"

#include <array>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/comm/failure_watch.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/layered_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/store/obituary.h"
#include "tandem/comm/store/replacement.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/comm/store/store_value.h"

namespace tandem::comm {
namespace {

const char* name_of(GroupKind kind) {
  constexpr std::array kNames{"none, a single process", "shared memory", "TCP", "NCCL",
                              "shared memory within each host, TCP between their first ranks"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Plan of open_world():
//   1. open the store, host it on rank 0 if the launcher does not;
//   2. exchange RankIntroductions; all ranks now have the same data and decide alike;
//   3. check that all ranks ask for the same, map ranks to hosts, choose the kind of group;
//   4. make that group; ranks of a host meet by the token of the host's first rank.
// A failure on the way is written to the store, so that ranks that wait in vain can report it.

// The data that a rank gives to all others in step 2. Lines of text, in the order of write().
struct RankIntroduction {
  HostKey host;
  std::string choice;  // its options as text; must be the same on all ranks
  std::string token;   // random name of the host group that this rank would lead

  [[nodiscard]] std::string write() const { return concat(choice, "\n", token, "\n", host.key, "\n", host.name); }
  static RankIntroduction read(const std::string& text) {
    const std::vector<std::string> lines = parts_in("world", text, '\n', 4);
    return {.host = {.key = lines[2], .name = lines[3]}, .choice = lines[0], .token = lines[1]};
  }
};

std::string choice_of(const WorldOptions& options) {
  std::string text = concat("backend ", name_of(options.backend));
  if (options.traffic == net::Traffic::kEncrypted) text += ", encrypt all";
  if (options.hosts_by == HostsBy::kKey) return text + ", hosts_by key";
  text += ", hosts_by rank-list";
  for (const std::vector<int>& ranks : options.hosts) {
    for (std::size_t i = 0; i < ranks.size(); ++i) text += concat(i == 0 ? " " : ",", ranks[i]);
  }
  return text;
}

void require_same_choices(const std::vector<RankIntroduction>& all) {
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].choice != all[0].choice) {
      throw ConfigError(concat("rank ", rank, " asks for ", all[rank].choice, ", and rank 0 for ", all[0].choice,
                               "; give all ranks the same options"));
    }
  }
}

HostMap map_hosts(const std::vector<RankIntroduction>& all, const WorldOptions& options) {
  std::vector<HostKey> keys;
  std::vector<std::string> names;
  for (const RankIntroduction& rank : all) {
    keys.push_back(rank.host);
    names.push_back(rank.host.name);
  }
  return options.hosts_by == HostsBy::kKey ? HostMap::by_key(keys) : HostMap::by_list(options.hosts, names);
}

struct Choice {
  GroupKind kind{};
  std::string why;
};

// Depends only on what is the same on all ranks, so that all choose alike.
Choice choose(Backend backend, const HostMap& hosts, int size) {
  if (size == 1) return {GroupKind::kSingle, "there is one rank"};
  const std::string asked = "as asked for";
  if (backend == Backend::kTcp) return {GroupKind::kTcp, asked};
  if (backend == Backend::kNccl) return {GroupKind::kNccl, asked};
  if (backend == Backend::kHost && hosts.size() > 1) {
    throw ConfigError(concat("backend host: the ranks are not on one host (", hosts.describe(),
                             "); use the backend auto or tcp, or hosts_by rank-list if they do share their memory"));
  }
  if (backend == Backend::kHost) return {GroupKind::kHost, asked};
  if (hosts.size() == 1) return {GroupKind::kHost, "chosen by auto: all ranks are on one host"};
  if (hosts.has_one_rank_each()) return {GroupKind::kTcp, "chosen by auto: every host has one rank"};
  const std::string obstacle = hosts.obstacle();
  if (!obstacle.empty()) {
    return {GroupKind::kTcp, concat("chosen by auto, also within hosts, though shared memory is faster: ", obstacle)};
  }
  return {GroupKind::kHostThenTcp, "chosen by auto: there are several hosts, some with several ranks"};
}

// Makes the group of this rank's host, in shared memory. Its name has the token of the host's first rank, so that no
// other run on the same host can meet it.
std::unique_ptr<Group> meet_on_host(const HostMap& hosts, int rank, const std::string& token, const Limits& limits) {
  const Host& host = hosts.host(hosts.host_of(rank));
  if (host.ranks.size() == 1) return std::move(make_local_group(1).front());
  try {
    return make_host_group({.rank = hosts.local_rank(rank),
                            .size = static_cast<int>(host.ranks.size()),
                            .key = "world/" + token,
                            .limits = limits,
                            .names = host.ranks});
  } catch (const DeadlineExceeded& error) {
    throw DeadlineExceeded(
        concat("rank ", rank, " did not meet all other ranks of its host: ", error.what(), "; the hosts are ",
               hosts.describe(),
               ". If these ranks run but cannot share memory, give the hosts with hosts_by rank-list, or use the "
               "backend tcp"));
  }
}

std::shared_ptr<Group> make_group(const World& world, const std::vector<RankIntroduction>& all,
                                  const WorldOptions& options, const NetworkGroups& network) {
  // Makes a group over the network, which gets its own part of the store.
  const auto across = [&](const NetworkGroups::Make& make, int rank, int size, const char* part,
                          std::vector<int> names) {
    const std::unique_ptr<Store> store = world.store->part(part);
    return make({.rank = rank,
                 .size = size,
                 .store = store.get(),
                 .network = options.network,
                 .limits = options.limits,
                 .names = std::move(names)});
  };
  const int host = world.hosts.host_of(world.rank);
  const auto token = [&] { return all[static_cast<std::size_t>(world.hosts.host(host).ranks.front())].token; };
  switch (world.kind) {
    case GroupKind::kSingle:
      return std::move(make_local_group(1).front());
    case GroupKind::kHost:
      return meet_on_host(world.hosts, world.rank, token(), options.limits);
    case GroupKind::kTcp:
      return across(network.tcp, world.rank, world.size, "tcp", {});
    case GroupKind::kNccl:
      return across(
          [&](const NetworkGroupOptions& nccl) {
            return network.nccl(nccl, options.device < 0 ? world.local_rank : options.device);
          },
          world.rank, world.size, "nccl", {});
    case GroupKind::kHostThenTcp:
      break;
  }
  std::unique_ptr<Group> inner = meet_on_host(world.hosts, world.rank, token(), options.limits);
  std::shared_ptr<Group> outer;
  if (world.local_rank == 0) {
    std::vector<int> leaders;  // the first rank of each host
    for (const Host& each : world.hosts.hosts()) leaders.push_back(each.ranks.front());
    outer = across(network.tcp, host, world.hosts.size(), "hosts", std::move(leaders));
  }
  return make_layered_group(std::move(inner), std::move(outer), options.limits, Names::kOfTheRun);
}

std::string describe(const World& world, Launcher launcher, const std::string& why) {
  const int host = world.hosts.host_of(world.rank);
  return concat("rank ", world.rank, " of ", world.size, ", local rank ", world.local_rank, " of ",
                world.hosts.host(host).ranks.size(), " on host ", host, ", by ", name_of(launcher),
                ". Hosts: ", world.hosts.describe(), ". Group: ", name_of(world.kind), ", ", why, ".");
}

// Exchanges introductions. A rank that hosts the store returns only after all ranks have read all introductions, since
// it may fail and take the store with it soon after: every rank can then find by itself which options disagree.
std::vector<RankIntroduction> introduce(Store& store, const LauncherEnvironment& me, const WorldOptions& options) {
  const RankIntroduction mine{.host = this_host(me.host_name), .choice = choice_of(options), .token = new_token()};
  std::vector<RankIntroduction> all;
  for (const std::string& text : exchange(store, kIntroduction, me.rank, me.world_size, mine.write(), options.limits)) {
    const int rank = static_cast<int>(all.size());
    if (const std::optional<std::string> how = obituary_in(text)) {
      throw PeerLost(rank, concat("rank ", rank, " of ", me.world_size, " ended (", *how,
                                  ") before it had met the others: see its output"));
    }
    all.push_back(RankIntroduction::read(text));
  }
  const auto heard = [](int rank) { return concat("heard/", rank); };
  store.set(heard(me.rank), "1");
  if (me.rank == 0 && !me.launcher_hosts_store) {
    for (int rank = 1; rank < me.world_size; ++rank) (void)store.get(heard(rank), options.limits);
  }
  return all;
}

// make_group(), where the failure of another rank ends the wait.
std::shared_ptr<Group> make_watched_group(const World& world, const std::vector<RankIntroduction>& all,
                                          const WorldOptions& options, const NetworkGroups& network) {
  if (world.size == 1) return make_group(world, all, options, network);
  const std::unique_ptr<Store> words = world.store->part("words");
  const auto find = [&]() -> std::optional<FirstFailure> {
    if (const auto ended = first_obituary(*world.store)) {
      return FirstFailure{ended->first, concat("it ended (", ended->second, "): see its output")};
    }
    return failure_of_another(*words, world.rank);
  };
  const FailureWatch watch(find, options.limits.stop);
  WorldOptions watched = options;
  watched.limits.stop = watch.token();
  try {
    return make_group(world, all, watched, network);
  } catch (const GroupAborted&) {
    if (!options.limits.stop.stop_requested()) watch.rethrow();
    throw;
  }
}

// Steps 2 to 4 of the plan, in an open store.
World enter(std::unique_ptr<Store> store, const LauncherEnvironment& me, const WorldOptions& options,
            const NetworkGroups& network) {
  const std::vector<RankIntroduction> all = introduce(*store, me, options);
  require_same_choices(all);
  HostMap hosts = map_hosts(all, options);
  const Choice choice = choose(options.backend, hosts, me.world_size);
  const net::Traffic traffic = hosts.size() > 1 ? options.traffic : net::Traffic::kOpen;
  if (choice.kind == GroupKind::kNccl && traffic == net::Traffic::kEncrypted) {
    throw ConfigError(
        "--encrypt all with --backend nccl: NCCL's connections cannot be encrypted; put the hosts into a tunnel "
        "(docs/security.md), or use the backend tcp");
  }
  World world{.rank = me.rank,
              .size = me.world_size,
              .local_rank = hosts.local_rank(me.rank),
              .hosts = std::move(hosts),
              .kind = choice.kind,
              .description = "",
              .store = std::move(store)};
  world.description =
      describe(world, me.launcher, choice.why + (traffic == net::Traffic::kEncrypted ? ", encrypted" : ""));
  fault_point("world.introduced");
  world.group = make_watched_group(world, all, options, network);
  fault_point("world.met");
  if (world.size > 1) {
    const std::shared_ptr<Store> words = world.store->part("words");
    world.group->set_survival(
        {.why_none = why_none_survive(me), .say_they_go_on = [words] { say_they_go_on(*words); }});
    world.group->set_traffic(options.traffic);
    world.departure = Departure(world.group, [words, rank = world.rank](const std::string& why) {
      (void)tell_first_failure(*words, {rank, why});
    });
    world.last_word = LastWord(me.last_word);
  }
  return world;
}

// Writes this rank's failure to the store unless there is one, and returns the first failure if it is another rank's.
std::string first_failure(Store& store, int rank, const std::string& mine) {
  try {
    const FirstFailure first = tell_first_failure(store, {rank, mine});
    return first.rank == rank ? "" : concat("rank ", first.rank, ": ", first.why);
  } catch (const RunError&) {
    return "";  // the store is gone; this rank's own failure is reported alone
  }
}

// Calls enter(); a failure goes to the store, and the first failure of another rank into DeadlineExceeded's message.
World enter_or_report_failure(std::unique_ptr<Store> store, const LauncherEnvironment& me, const WorldOptions& options,
                              const NetworkGroups& network) {
  const std::unique_ptr<Store> failures = store->part("words");
  try {
    return enter(std::move(store), me, options, network);
  } catch (const DeadlineExceeded& error) {
    const std::string first = first_failure(*failures, me.rank, error.what());
    throw DeadlineExceeded(concat(error.what(), first.empty() ? "" : "; the first failure was that of ", first));
  } catch (const PeerLost&) {
    throw;  // the failure is the other rank's, and its launcher knows of it
  } catch (const std::exception& error) {
    (void)first_failure(*failures, me.rank, error.what());
    throw;
  }
}

}  // namespace

const char* name_of(Backend backend) {
  constexpr std::array kNames{"auto", "host", "tcp", "nccl"};
  return kNames[static_cast<std::size_t>(backend)];
}

LauncherEnvironment with_wishes(LauncherEnvironment me, const WorldOptions& options) {
  me.is_insecure = me.is_insecure || options.is_insecure;
  me.traffic = options.traffic;
  return me;
}

World open_world(const LauncherEnvironment& me, const WorldOptions& options, const NetworkGroups& network) {
  TANDEM_EXPECTS(me.rank >= 0 && me.rank < me.world_size, "open_world() as rank ", me.rank, " of ", me.world_size,
                 "; ranks count from 0");
  const LauncherEnvironment rank = with_wishes(me, options);
  return enter_or_report_failure(open_store(rank, options.generation, options.limits), rank, options, network);
}

World open_world_beside(World& first, const LauncherEnvironment& me, const WorldOptions& options) {
  std::unique_ptr<Store> store = first.store->part(concat("beside/", options.generation));
  return enter_or_report_failure(std::move(store), me, options, {});
}

}  // namespace tandem::comm
