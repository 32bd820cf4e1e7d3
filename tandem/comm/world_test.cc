#include "tandem/comm/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/free_port.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/comm/testing/group_laws.h"
#include "tandem/comm/testing/store_process.h"
#include "tandem/comm/world_board.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using shm::ProcessWorld;
using shm::unique_key;
using shm::Voice;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

// What a launcher says that knows nothing of hosts.
LauncherEnvironment rank_of(int rank, int size, int port) {
  return {.launcher = Launcher::kVariables,
          .rank = rank,
          .world_size = size,
          .local_rank = 7,
          .local_size = 99,
          .host_name = concat("machine-", rank),
          .master = {.address = "127.0.0.1", .port = port}};
}

// Groups between hosts that are none: all ranks are on this one.
NetworkGroups stand_in(const std::string& key) {
  return {.tcp =
              [key](const NetworkGroupOptions& options) {
                return make_host_group({.rank = options.rank,
                                        .size = options.size,
                                        .key = key,
                                        .limits = options.limits,
                                        .names = options.names});
              },
          .nccl = [](const NetworkGroupOptions&, int device) -> std::unique_ptr<Group> {
            throw ConfigError(concat("no NCCL on device ", device));
          }};
}

// The same under a launcher that hosts the store.
LauncherEnvironment rank_of(int rank, int size, const StoreProcess& launcher) {
  LauncherEnvironment me = rank_of(rank, size, launcher.port());
  me.launcher_hosts_store = true;
  return me;
}

// Runs `work` in the world of each rank, in a process of its own; what each says, and what it throws.
using Work = std::function<void(World& world, const Voice& voice)>;
std::vector<std::string> run_worlds(int size, const std::function<WorldOptions(int rank)>& options, const Work& work) {
  const std::string key = unique_key("world");
  const StoreProcess launcher;
  ProcessWorld processes(size, [&](int rank, const Voice& voice) {
    World world = open_world(rank_of(rank, size, launcher), options(rank), stand_in(key));
    work(world, voice);
    world.group->barrier(within(60s));  // nobody leaves while others still work
  });
  return processes.outcomes();
}

WorldOptions choose(Backend backend) {
  WorldOptions options;
  options.backend = backend;
  return options;
}
WorldOptions with_hosts(const std::vector<std::vector<int>>& hosts, Backend backend = Backend::kAuto) {
  WorldOptions options = choose(backend);
  options.hosts_by = HostsBy::kRankList;
  options.hosts = hosts;
  return options;
}

WorldOptions patient_for(Clock::duration span) {
  WorldOptions options;
  options.limits = within(span);
  return options;
}

void say_description(World& world, const Voice& voice) { voice.say(world.description); }

// Says what is wrong with the group of all.
void check_group(World& world, const Voice& voice) {
  if (world.group->rank() != world.rank || world.group->size() != world.size) voice.say("another rank; ");
  voice.say(faults_of_sums(*world.group, {torch::kFloat, torch::kDouble, torch::kLong}, {0, 31, 5003}));
  voice.say(faults_of_copies(*world.group));
}

TEST(WorldTest, NcclUsesTheDeviceOfTheLocalRankUnlessOneIsNamed) {
  const auto outcomes = run_worlds(
      2,
      [](int rank) {
        WorldOptions options = choose(Backend::kNccl);
        if (rank == 0) options.device = 5;
        return options;
      },
      [](World&, const Voice&) {});
  EXPECT_THAT(outcomes[0], HasSubstr("no NCCL on device 5"));
  EXPECT_THAT(outcomes[1], HasSubstr("no NCCL on device 1"));
}

TEST(WorldTest, ASingleProcessIsAWorld) {
  World world = open_world(LauncherEnvironment{.host_name = "here"}, {});
  EXPECT_EQ(world.kind, GroupKind::kSingle);
  EXPECT_EQ(world.group->size(), 1);
  world.group->barrier(within(60s));
  EXPECT_EQ(world.description,
            "rank 0 of 1, local rank 0 of 1 on host 0, by no launcher. Hosts: host 0 (here): rank 0, by boot id, "
            "network namespace and user. Group: none, a single process, there is one rank.");
}

TEST(WorldTest, AutoTakesSharedMemoryWhenAllRanksAreOnOneHost) {
  const auto outcomes = run_worlds(
      3, [](int) { return choose(Backend::kAuto); },
      [](World& world, const Voice& voice) {
        if (world.kind != GroupKind::kHost || world.local_rank != world.rank) voice.say("another kind; ");
        check_group(world, voice);
        voice.say(world.description);
      });
  EXPECT_THAT(outcomes, Each(HasSubstr("Hosts: host 0 (machine-0): ranks 0, 1, 2, by boot id, network namespace and "
                                       "user. Group: shared memory, chosen by auto: all ranks are on one host.")));
  EXPECT_THAT(outcomes[1], StartsWith("rank 1 of 3, local rank 1 of 3 on host 0, by RANK and WORLD_SIZE. "));
}

TEST(WorldTest, AutoGoesWithinHostsFirstAndThenBetweenThem) {
  for (const auto& hosts : {std::vector<std::vector<int>>{{0, 1}, {2, 3}}, {{0, 1}, {2}}}) {
    const int size = static_cast<int>(hosts[0].size() + hosts[1].size());
    const auto outcomes = run_worlds(
        size, [&](int) { return with_hosts(hosts); },
        [](World& world, const Voice& voice) {
          if (world.kind != GroupKind::kHostThenTcp || world.local_rank != world.rank % 2) voice.say("another kind; ");
          check_group(world, voice);
          voice.say(world.description);
        });
    EXPECT_THAT(outcomes, Each(AllOf(StartsWith("rank "), HasSubstr("by the given list. Group: shared memory within "
                                                                    "each host, TCP between their first ranks"))));
  }
}

TEST(WorldTest, TcpGoesBetweenHosts) {
  const StoreProcess launcher;
  for (const auto& hosts : {std::vector<std::vector<int>>{{0, 1}, {2, 3}}, {{0}, {1}}}) {
    const int size = hosts.size() == hosts[0].size() ? 4 : 2;
    ProcessWorld processes(size, [&](int rank, const Voice& voice) {
      WorldOptions options = with_hosts(hosts);
      options.generation = size;
      World world = open_world(rank_of(rank, size, launcher), options);
      check_group(world, voice);
      world.group->barrier(within(60s));
    });
    EXPECT_THAT(processes.outcomes(), Each(StrEq("")));
  }
}

TEST(WorldTest, AKilledRankIsNamedOnAllHosts) {
  const StoreProcess launcher;
  for (const int victim : {0, 1, 2, 3}) {
    ProcessWorld processes(4, [&](int rank, const Voice& voice) {
      WorldOptions options = with_hosts({{0, 1}, {2, 3}});
      options.generation = victim;
      World world = open_world(rank_of(rank, 4, launcher), options);
      world.group->barrier(within(60s));
      if (rank == victim) ::raise(SIGKILL);
      try {
        for (;;) world.group->start_all_reduce(torch::zeros({2000})).wait(within(24h));
      } catch (const PeerLost& lost) {
        voice.say(concat("lost rank ", lost.peer(), ": "));
        throw;
      }
    });
    const std::vector<std::string> outcomes = processes.outcomes();
    const bool leads = victim % 2 == 0;
    const int partner = leads ? victim + 1 : victim - 1;
    EXPECT_THAT(outcomes[static_cast<std::size_t>(partner)], HasSubstr(concat("lost rank ", victim))) << victim;
    for (int other = 0; other < 4; ++other) {
      if (other == victim) continue;
      EXPECT_THAT(outcomes[static_cast<std::size_t>(other)],
                  AllOf(ContainsRegex(concat("rank ", victim, " \\(process [^)]*\\) died")),
                        Not(ContainsRegex(concat("rank [^", victim, "] \\(process [^)]*\\) died")))))
          << victim;
    }
  }
}

struct Fallback {
  std::vector<std::vector<int>> hosts;
  const char* why;
};

TEST(WorldTest, AutoTakesTcpAloneWhereSharedMemoryWouldNotDoAndSaysWhy) {
  for (const Fallback& it : {Fallback{{{0}, {1}, {2}}, "every host has one rank"},
                             {{{0, 2}, {1, 3}}, "do not follow each other"},
                             {{{0}, {1, 2}}, "sums over 1 + 2 ranks"}}) {
    int size = 0;
    for (const auto& host : it.hosts) size += static_cast<int>(host.size());
    const auto outcomes = run_worlds(
        size, [&](int) { return with_hosts(it.hosts); },
        [](World& world, const Voice& voice) {
          if (world.kind != GroupKind::kTcp) voice.say("another kind; ");
          check_group(world, voice);
          voice.say(world.description);
        });
    EXPECT_THAT(outcomes, Each(AllOf(StartsWith("rank "), HasSubstr("Group: TCP, "), HasSubstr(it.why))));
  }
}

TEST(WorldTest, TcpIsTakenWithinAHostWhenAskedFor) {
  EXPECT_THAT(run_worlds(
                  2, [](int) { return choose(Backend::kTcp); }, say_description),
              Each(HasSubstr("Group: TCP, as asked for.")));
}

TEST(WorldTest, HostIsRefusedForRanksOnSeveralHosts) {
  EXPECT_THAT(
      run_worlds(
          3,
          [](int) {
            return with_hosts({{0, 1}, {2}}, Backend::kHost);
          },
          say_description),
      Each(AllOf(StartsWith("backend host: the ranks are not on one host"), HasSubstr("(machine-0): ranks 0, 1"),
                 HasSubstr("(machine-2): rank 2"), HasSubstr("auto or tcp"))));
}

TEST(WorldTest, RanksThatAskForDifferentThingsAreNamed) {
  EXPECT_THAT(run_worlds(
                  2, [](int rank) { return choose(rank == 0 ? Backend::kAuto : Backend::kTcp); }, say_description),
              Each(StrEq("rank 1 asks for backend tcp, hosts_by key, and rank 0 for backend auto, hosts_by key; give "
                         "all ranks the same options")));
}

// Rank 0 leaves with the store that it hosts, and so must wait until the others know what is wrong.
TEST(WorldTest, ARefusalIsHeardByAllBeforeTheStoreGoes) {
  const int port = free_port();
  ProcessWorld processes(3, [&](int rank, const Voice&) {
    (void)open_world(rank_of(rank, 3, port), choose(rank == 0 ? Backend::kAuto : Backend::kTcp));
  });
  EXPECT_THAT(processes.outcomes(), Each(StartsWith("rank 1 asks for backend tcp")));
}

TEST(WorldTest, AListThatDoesNotFitIsRefused) {
  EXPECT_THAT(run_worlds(
                  2,
                  [](int) {
                    return with_hosts({{0, 2}});
                  },
                  say_description),
              Each(AllOf(HasSubstr("there are ranks 0 to 1"), HasSubstr("rank 1 is there 0 times"))));
}

TEST(WorldTest, AProcessOpensOneWorldAfterTheOther) {
  const std::string key = unique_key("world");
  const StoreProcess launcher;
  ProcessWorld processes(2, [&](int rank, const Voice& voice) {
    for (int generation = 0; generation < 3; ++generation) {
      WorldOptions options;
      options.generation = generation;
      World world = open_world(rank_of(rank, 2, launcher), options, stand_in(key));
      check_group(world, voice);
      world.group->barrier(within(60s));
    }
    if (rank == 0) return;
    try {  // what was said in earlier worlds is not heard
      WorldOptions options = patient_for(2s);
      options.generation = 3;
      (void)open_world(rank_of(rank, 2, launcher), options, stand_in(key));
    } catch (const DeadlineExceeded& error) {
      if (std::string(error.what()).find("for rank 0 of 2 to bring 'world'") == std::string::npos)
        voice.say(error.what());
    }
  });
  EXPECT_THAT(processes.outcomes(), Each(StrEq("")));
}

TEST(WorldTest, APortInUseIsNamed) {
  const HostedStore taken = host_store({});
  EXPECT_THAT(
      [&] { (void)open_world(rank_of(0, 2, taken.place.endpoint.port), patient_for(60s)); },
      ThrowsMessage<RunError>(AllOf(HasSubstr(concat("port ", taken.place.endpoint.port)), HasSubstr("MASTER_PORT"))));
}

TEST(WorldTest, AMasterThatNobodyHearsOfIsNamed) {
  const int port = free_port();
  EXPECT_THAT([&] { (void)open_world(rank_of(1, 2, port), patient_for(10ms)); },
              ThrowsMessage<DeadlineExceeded>(
                  AllOf(HasSubstr(concat("cannot reach the store at 127.0.0.1:", port)), HasSubstr("MASTER_PORT"))));
}

TEST(WorldTest, ARankThatDoesNotComeIsNamed) {
  EXPECT_THAT([&] { (void)open_world(rank_of(0, 2, free_port()), patient_for(10ms)); },
              ThrowsMessage<DeadlineExceeded>(HasSubstr("for rank 1 of 2 to bring 'world'")));
}

// Rank 1 says that it is on rank 0's host, and is not to be met there.
TEST(WorldTest, RanksThatDoNotMeetWhereTheirKeysSayAreToldOfHostsBy) {
  const StoreProcess launcher;
  ProcessWorld processes(2, [&](int rank, const Voice&) {
    if (rank == 0) (void)open_world(rank_of(rank, 2, launcher), patient_for(3s));
    const std::unique_ptr<Store> store = open_store(rank_of(rank, 2, launcher), 0, within(60s));
    store->set("world/1", store->get("world/0", within(60s)));
    (void)store->get("the end", within(24h));
  });
  EXPECT_THAT(processes.outcome(0),
              AllOf(HasSubstr("rank 0 did not meet all other ranks of its host"), HasSubstr("rank 1 of 2"),
                    HasSubstr("(machine-0): ranks 0, 1"), HasSubstr("hosts_by rank-list")));
}

TEST(WorldTest, TheFirstFailureOfAnotherRankIsTold) {
  const int port = free_port();
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  NetworkGroups network = stand_in("");
  network.tcp = [&](const NetworkGroupOptions& options) -> std::unique_ptr<Group> {
    if (options.rank == 1) throw RunError("no cable");
    char failed = 0;
    (void)!::read(reading.get(), &failed, 1);
    throw DeadlineExceeded("nobody came");
  };
  ProcessWorld processes(2, [&](int rank, const Voice&) {
    try {
      (void)open_world(rank_of(rank, 2, port), choose(Backend::kTcp), network);
    } catch (const RunError&) {
      (void)!::write(writing.get(), "x", 1);
      throw;
    }
  });
  writing.close();
  EXPECT_EQ(processes.outcome(0), "nobody came; the first failure was that of rank 1: no cable");
  EXPECT_EQ(processes.outcome(1), "no cable");
}

// Says which units' postings have not come to be seen.
void check_board(World& world, const Voice& voice) {
  ProgressBoard board = open_board(world, 2 * world.size, {2 * world.rank, 2 * world.rank + 2}, within(60s));
  const auto posting = [](int unit) { return Progress{.round = 5, .steps = unit + 1, .finished = unit % 2 == 1}; };
  for (int unit = 2 * world.rank; unit < 2 * world.rank + 2; ++unit) board.post(unit, posting(unit));
  for (int unit = 0; unit < board.units(); ++unit) {
    if (!eventually([&] { return board.look(unit) == posting(unit); })) voice.say(concat("unit ", unit, " unseen; "));
  }
  world.group->barrier(within(60s));  // all have seen all
}

TEST(WorldBoardTest, EveryRankSeesWhatAllUnitsPosted) {
  EXPECT_THAT(run_worlds(
                  3, [](int) { return choose(Backend::kAuto); }, check_board),
              Each(StrEq("")));
  EXPECT_THAT(run_worlds(
                  3,
                  [](int) {
                    return with_hosts({{0, 2}, {1}});
                  },
                  check_board),
              Each(StrEq("")));
}

TEST(WorldBoardTest, RanksThatPostForTheSameUnitAreNamed) {
  const auto outcomes = run_worlds(
      2, [](int) { return choose(Backend::kAuto); },
      [](World& world, const Voice&) {
        (void)open_board(world, 3, {world.rank, world.rank + 2}, within(60s));
      });
  EXPECT_THAT(outcomes, Each(HasSubstr("ranks 0 and 1 both post for unit 1")));
}

}  // namespace
}  // namespace tandem::comm
