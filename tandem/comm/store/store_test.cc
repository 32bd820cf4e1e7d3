// What holds for every store, and for the one over TCP alone.
#include "tandem/comm/store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <thread>

#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/free_port.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/run_store.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Limits soon() { return within(60s); }

// Stores of the same values for two ranks.
enum class Kind { kMemory, kHosted };
class StoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kHosted) {
      HostedStore hosted = host_store({});
      mine = std::move(hosted.store);
      yours = connect_to_store(hosted.place, soon());
    } else {
      mine = make_memory_store();
      yours = mine->part("");
      mine = mine->part("");
    }
  }
  std::unique_ptr<Store> mine, yours;
};
INSTANTIATE_TEST_SUITE_P(Kinds, StoreTest, ::testing::Values(Kind::kMemory, Kind::kHosted),
                         [](const auto& kind) { return kind.param == Kind::kHosted ? "Hosted" : "Memory"; });

TEST_P(StoreTest, WhatOneSetsTheOtherGets) {
  const std::string bytes("a\0b\n", 4);
  mine->set("key", bytes);
  EXPECT_EQ(yours->get("key", soon()), bytes);
  EXPECT_EQ(yours->find("key"), bytes);
  EXPECT_EQ(yours->find("other"), std::nullopt);
}

TEST_P(StoreTest, GetWaitsUntilTheValueIsThere) {
  std::string got;
  {
    const std::jthread waiter([&] { got = yours->get("key", soon()); });
    mine->set("key", "late");
  }
  EXPECT_EQ(got, "late");
}

TEST_P(StoreTest, AWaitThatEndsLeavesTheStoreAsItWas) {
  EXPECT_THAT(message_of<DeadlineExceeded>([&] { (void)mine->get("key", within(1ms)); }),
              HasSubstr("nobody set 'key' before the deadline"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(message_of<GroupAborted>([&] { (void)mine->get("key", {.stop = stop.get_token()}); }),
              HasSubstr("stopped"));
  mine->set("key", "value");
  EXPECT_EQ(mine->get("key", within(0s)), "value");
}

TEST_P(StoreTest, AStopEndsAWaitWithoutDeadline) {
  std::stop_source stop;
  std::string message;
  {
    const std::jthread waiter(
        [&] { message = message_of<GroupAborted>([&] { (void)yours->get("key", {.stop = stop.get_token()}); }); });
    stop.request_stop();
  }
  EXPECT_THAT(message, HasSubstr("stopped"));
}

TEST_P(StoreTest, CountersAddUp) {
  EXPECT_EQ(mine->add("count", 3), 3);
  EXPECT_EQ(yours->add("count", -5), -2);
  EXPECT_EQ(yours->get("count", soon()), "-2");
}

TEST_P(StoreTest, CompareSetChangesOnlyWhatIsExpected) {
  EXPECT_EQ(mine->compare_set("leader", "one", "two"), "");
  EXPECT_EQ(mine->find("leader"), std::nullopt);
  EXPECT_EQ(mine->compare_set("leader", "", "one"), "one");
  EXPECT_EQ(yours->compare_set("leader", "", "two"), "one");
  EXPECT_EQ(yours->compare_set("leader", "one", "two"), "two");
  EXPECT_EQ(mine->get("leader", soon()), "two");
}

TEST_P(StoreTest, PartsDoNotSeeEachOther) {
  mine->part("a")->set("key", "of a");
  EXPECT_EQ(yours->part("b")->find("key"), std::nullopt);
  EXPECT_EQ(yours->part("a")->find("key"), "of a");
}

TEST_P(StoreTest, AnExchangeGivesTheValuesOfAllRanks) {
  std::vector<std::string> got;
  {
    const std::jthread other([&] { got = exchange(*yours, "address", 1, 2, "of 1", soon()); });
    EXPECT_THAT(exchange(*mine, "address", 0, 2, "of 0", soon()), ElementsAre("of 0", "of 1"));
  }
  EXPECT_THAT(got, ElementsAre("of 0", "of 1"));
}

TEST_P(StoreTest, AnExchangeNamesTheRanksThatAreMissing) {
  mine->set("address/2", "of 2");
  EXPECT_THAT(
      message_of<DeadlineExceeded>([&] { (void)exchange(*mine, "address", 1, 4, "of 1", within(1ms)); }),
      AllOf(HasSubstr("rank 1 waited"), HasSubstr("for ranks 0, 3 of 4 to bring 'address'"), HasSubstr(mine->name())));
}

LauncherEnvironment rank_of_two(int rank, int port) {
  return {.launcher = Launcher::kVariables, .rank = rank, .world_size = 2, .master = {"127.0.0.1", port}};
}

TEST(OpenStoreTest, RankZeroHostsWhatTheLauncherDoesNot) {
  const int port = free_port();
  std::string got;
  std::jthread other([&] { got = open_store(rank_of_two(1, port), 0, soon())->get("key", soon()); });
  const std::unique_ptr<Store> store = open_store(rank_of_two(0, port), 0, soon());
  store->set("key", "value");
  other.join();
  EXPECT_EQ(got, "value");
}

TEST(OpenStoreTest, NeitherOtherRunsNorRestartsNorGenerationsAreSeen) {
  const HostedStore hosted = host_store({});
  LauncherEnvironment me = rank_of_two(1, hosted.place.endpoint.port);
  me.launcher_hosts_store = true;
  me.run_id = "a";
  open_store(me, 0, soon())->set("key", "value");
  EXPECT_EQ(open_store(me, 0, soon())->find("key"), "value");
  EXPECT_EQ(open_store(me, 1, soon())->find("key"), std::nullopt);
  LauncherEnvironment restarted = me, other_run = me;
  restarted.restart_count = 1;
  other_run.run_id = "b";
  EXPECT_EQ(open_store(restarted, 0, soon())->find("key"), std::nullopt);
  EXPECT_EQ(open_store(other_run, 0, soon())->find("key"), std::nullopt);
}

TEST(OpenStoreTest, ASingleProcessNeedsNoServer) {
  const std::unique_ptr<Store> store = open_store({}, 0, within(0s));
  EXPECT_EQ(store->add("count", 1), 1);
}

TEST(RunStoreTest, APortInUseIsNamed) {
  for (const net::Reach reach : {net::Reach::kThisHost, net::Reach::kEverywhere}) {
    const HostedStore hosted = host_store({.endpoint = {"127.0.0.1", 0}, .reach = reach, .secret = "of a run"});
    EXPECT_THAT(message_of<RunError>([&] { (void)host_store(hosted.place); }),
                AllOf(HasSubstr(concat("port ", hosted.place.endpoint.port)), HasSubstr("Address already in use"),
                      HasSubstr("choose another MASTER_PORT")));
  }
}

TEST(RunStoreTest, AnotherSecretIsRefusedAndSaidWhereItIs) {
  for (const net::Reach reach : {net::Reach::kThisHost, net::Reach::kEverywhere}) {
    const HostedStore hosted = host_store({.endpoint = {"127.0.0.1", 0}, .reach = reach, .secret = "of a run"});
    StorePlace other = hosted.place;
    for (const char* secret : {"of another run", ""}) {
      other.secret = secret;
      EXPECT_THAT(message_of<ConfigError>([&] { (void)connect_to_store(other, soon()); }),
                  AllOf(HasSubstr("the store at 127.0.0.1"),
                        HasSubstr("refused this process, which has another secret"), HasSubstr("TANDEM_RUN_SECRET")));
    }
    connect_to_store(hosted.place, soon())->set("key", "value");
    EXPECT_EQ(hosted.store->find("key"), "value");
  }
}

TEST(RunStoreTest, ValuesHaveBounds) {
  const HostedStore hosted = host_store({});
  const std::unique_ptr<Store> store = connect_to_store(hosted.place, soon());
  EXPECT_THAT(message_of<RunError>([&] { store->set("key", std::string((16U << 20U) + 1, 'x')); }),
              HasSubstr("at most 16777216 bytes"));
  EXPECT_THAT(message_of<RunError>([&] { store->set(std::string(5000, 'x'), "value"); }), HasSubstr("1 to 4096 bytes"));
  store->set("text", "1x");
  EXPECT_THAT(message_of<RunError>([&] { (void)store->add("text", 1); }), HasSubstr("no number to add to"));
  EXPECT_EQ(store->add("count", std::numeric_limits<std::int64_t>::max()), std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(message_of<RunError>([&] { (void)store->add("count", 1); }), HasSubstr("overflows"));
}

LauncherEnvironment rank_with_master(const std::string& address) {
  return {.launcher = Launcher::kVariables, .rank = 1, .world_size = 2, .master = {address, 29500}};
}

// 192.0.2.1 is no host's address (RFC 5737).
TEST(PlaceOfStoreTest, OtherHostsAreReachedOnlyWithASecretOrWhereTheUserSaysSo) {
  for (const char* address : {"127.0.0.1", "localhost", "::1", "127.0.1.1"})
    EXPECT_EQ(place_of_store(rank_with_master(address), soon()).reach, net::Reach::kThisHost) << address;
  LauncherEnvironment far = rank_with_master("192.0.2.1");
  EXPECT_THAT(message_of<ConfigError>([&] { (void)place_of_store(far, soon()); }),
              AllOf(HasSubstr("MASTER_ADDR = 192.0.2.1"), HasSubstr("TANDEM_RUN_SECRET"), HasSubstr("--insecure")));
  far.is_insecure = true;
  EXPECT_EQ(place_of_store(far, soon()).reach, net::Reach::kEverywhere);
  far.traffic = net::Traffic::kEncrypted;  // by which key?
  EXPECT_THAT(message_of<ConfigError>([&] { (void)place_of_store(far, soon()); }),
              HasSubstr("--encrypt all needs a run secret"));
  far.is_insecure = false;
  far.secret = "of a run that is not guessed";
  EXPECT_EQ(place_of_store(far, soon()).reach, net::Reach::kEverywhere);
}

// Whoever hosts the store would find its own address, and wait for ranks that do not start.
TEST(PlaceOfStoreTest, TheHostOfTheStoreNeedsTheSecretToo) {
  const std::vector<std::string> own = net::own_addresses();
  const auto outside = std::ranges::find_if_not(own, net::is_loopback);
  if (outside == own.end()) GTEST_SKIP() << "this host has no address beyond loopback";
  LauncherEnvironment first = rank_with_master(*outside);
  EXPECT_EQ(place_of_store(first, soon()).reach, net::Reach::kThisHost);
  first.local_size = 1;
  EXPECT_THAT(message_of<ConfigError>([&] { (void)place_of_store(first, soon()); }),
              AllOf(HasSubstr("says that there are several"), HasSubstr("TANDEM_RUN_SECRET_FILE")));
  first.local_size.reset();
  first.hosts = 2;
  EXPECT_THROW((void)place_of_store(first, soon()), ConfigError);
  first.hosts = 1;
  EXPECT_EQ(place_of_store(first, soon()).reach, net::Reach::kThisHost);
}

TEST(RunStoreTest, AThreadThatConnectsAtOnceDoesNotKeepItsHostFromAnswering) {
  for (int time = 0; time < 50; ++time) {
    const int port = free_port();
    HostedStore hosted;  // longer than who connects
    const std::jthread other([port](const std::stop_token& stop) {
      std::unique_ptr<Store> store;
      while (store == nullptr && !stop.stop_requested()) {
        try {
          store = connect_to_store(store_here(port), within(0s));
        } catch (const DeadlineExceeded&) {
          std::this_thread::yield();  // nobody listens yet
        }
      }
      if (store != nullptr) store->set("key", "value");
    });
    hosted = host_store(store_here(port));
    EXPECT_EQ(hosted.store->get("key", soon()), "value");
  }
}

TEST(RunStoreTest, AMasterThatDoesNotListenIsNamedWithTheCause) {
  const int port = free_port();
  EXPECT_THAT(message_of<DeadlineExceeded>([&] { (void)connect_to_store(store_here(port), within(1ms)); }),
              AllOf(HasSubstr(concat("cannot reach the store at 127.0.0.1:", port)), HasSubstr("Connection refused"),
                    HasSubstr("is not running")));
  EXPECT_THAT(message_of<DeadlineExceeded>(
                  [&] { (void)place_of_store(rank_with_master("no-such-host.invalid"), within(1ms)); }),
              HasSubstr("cannot reach the store at no-such-host.invalid:29500"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(message_of<GroupAborted>([&] { (void)connect_to_store(store_here(port), {.stop = stop.get_token()}); }),
              HasSubstr("stopped"));
}

TEST(RunStoreTest, AListenerThatIsNoStoreIsNamed) {
  const Descriptor listener = net::listen_to_all(0);  // the system accepts for it, and it never answers
  const StorePlace place{.endpoint = {"127.0.0.1", net::port_of(listener)}, .reach = net::Reach::kEverywhere};
  EXPECT_THAT(message_of<DeadlineExceeded>([&] { (void)connect_to_store(place, within(100ms), 50ms); }),
              AllOf(HasSubstr(concat("cannot reach the store at 127.0.0.1:", place.endpoint.port)),
                    HasSubstr("127.0.0.1: no answer")));
}

TEST(RunStoreTest, AStoreWhoseHostIsGoneIsLostForGood) {
  HostedStore hosted = host_store({});
  const std::unique_ptr<Store> store = connect_to_store(hosted.place, soon());
  hosted.store.reset();
  EXPECT_THAT(message_of<RunError>([&] { (void)store->get("key", soon()); }),
              AllOf(HasSubstr(concat("the store at 127.0.0.1:", hosted.place.endpoint.port,
                                     " was lost while looking for 'key'")),
                    HasSubstr("has ended or was stopped")));
  EXPECT_THAT(message_of<RunError>([&] { store->set("key", "value"); }), HasSubstr("was lost before setting 'key'"));
}

TEST(RunStoreTest, SettingNoticesThatTheHostIsGone) {
  HostedStore hosted = host_store({});
  const std::unique_ptr<Store> store = connect_to_store(hosted.place, soon());
  hosted.store.reset();
  EXPECT_THROW(store->set("key", "value"), RunError);
}

TEST(RunStoreTest, AStoreWhoseHostIsStoppedIsLostAfterTheReplyLimit) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t host = ::fork();
  ASSERT_GE(host, 0);
  if (host == 0) {
    const HostedStore hosted = host_store({});
    [[maybe_unused]] const ssize_t written =
        ::write(pipe[1], &hosted.place.endpoint.port, sizeof(hosted.place.endpoint.port));
    ::pause();
  }
  int port = 0;
  ASSERT_EQ(::read(pipe[0], &port, sizeof(port)), static_cast<ssize_t>(sizeof(port)));
  const std::unique_ptr<Store> store = connect_to_store(store_here(port), soon(), 50ms);
  store->set("key", "value");
  ::kill(host, SIGSTOP);
  ::waitpid(host, nullptr, WUNTRACED);
  EXPECT_THAT(message_of<RunError>([&] { (void)store->add("count", 1); }),
              HasSubstr("was lost while adding to 'count'"));
  ::kill(host, SIGKILL);
  ::waitpid(host, nullptr, 0);
}

// Whatever is the first thing that finds no descriptor: the caller hears of it, and nothing waits for ever.
TEST(HostedStoreTest, AProcessWithFewDescriptorsHostsAStoreOrSaysWhyNot) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next_free = Descriptor(::dup(STDIN_FILENO)).get();
  int refused = 0, hosted = 0;
  for (int free = 0; hosted == 0 && free < 32; ++free) {
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(next_free + free);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    try {
      (void)host_store({});
      ++hosted;
    } catch (const RunError& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr("ulimit -n")) << free;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(hosted, 1);
}

}  // namespace
}  // namespace tandem::comm
