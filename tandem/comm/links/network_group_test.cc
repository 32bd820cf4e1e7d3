#include "tandem/comm/links/network_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/testing/group_laws.h"
#include "tandem/comm/testing/met_groups.h"
#include "tandem/comm/testing/store_process.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using shm::ProcessWorld;
using shm::Voice;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

const auto kDtypes = {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kLong};

using RankWork = std::function<void(Group&, const Voice&)>;

// Ranks that are processes, which a test may stop and kill.
class Ranks {
 public:
  Ranks(int size, const RankWork& work)
      : world_(size, [&](int rank, const Voice& voice) {
          const auto group = join_tcp(rank, size, store_.port());
          work(*group, voice);
          group->barrier(within(60s));
        }) {}
  ProcessWorld& operator*() { return world_; }
  ProcessWorld* operator->() { return &world_; }

 private:
  StoreProcess store_;
  ProcessWorld world_;
};

std::vector<std::string> run_tcp_ranks(int size, const RankWork& work) { return Ranks(size, work)->outcomes(); }

// Ranks that are threads of this process.
std::vector<std::string> run_threads(int size, const std::function<std::string(Group&)>& work) {
  const HostedStore hosted = host_store({});
  std::vector<std::string> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& outcome = outcomes[static_cast<std::size_t>(rank)];
      try {
        outcome = work(*join_tcp(rank, size, hosted.place.endpoint.port));
      } catch (const std::exception& error) {
        outcome = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

class NetworkGroupSizes : public ::testing::TestWithParam<int> {};

TEST_P(NetworkGroupSizes, AllReduceGivesTheBitsOfTheLocalGroup) {
  EXPECT_THAT(run_tcp_ranks(GetParam(),
                            [](Group& group, const Voice& voice) {
                              voice.say(faults_of_sums(group, kDtypes, {0, 1, 5, 1023, 1025, 20'001}));
                              voice.say(faults_of_sums(group, {torch::kFloat}, {3'000'001}));
                            }),
              Each(""));
}

TEST_P(NetworkGroupSizes, APartOfATensorIsReducedAndNothingElse) {
  EXPECT_THAT(run_tcp_ranks(GetParam(), [](Group& group, const Voice& voice) { voice.say(faults_of_parts(group)); }),
              Each(""));
}

TEST_P(NetworkGroupSizes, GatherAndBroadcastKeepTheOrderOfRanks) {
  EXPECT_THAT(run_tcp_ranks(GetParam(),
                            [](Group& group, const Voice& voice) {
                              voice.say(faults_of_copies(group) + faults_of_shared_parts(group));
                            }),
              Each(""));
}

TEST_P(NetworkGroupSizes, WhoIsMissingAtADeadlineIsAskedFirst) {
  EXPECT_THAT(
      run_tcp_ranks(GetParam(), [](Group& group, const Voice& voice) { voice.say(faults_of_questions(group)); }),
      Each(""));
}

TEST_P(NetworkGroupSizes, RanksMayBeThreadsOfOneProcess) {
  EXPECT_THAT(
      run_threads(GetParam(),
                  [](Group& group) {
                    std::string faults = faults_of_sums(group, {torch::kFloat}, {7, 3000}) + faults_of_copies(group);
                    group.barrier(within(60s));
                    return faults;
                  }),
      Each(""));
}

INSTANTIATE_TEST_SUITE_P(Sizes, NetworkGroupSizes, ::testing::Values(1, 2, 3, 4));

TEST(NetworkGroupTest, ManyMayBeStartedAtOnceAndAreExecutedInOrder) {
  EXPECT_THAT(run_tcp_ranks(2,
                            [](Group& group, const Voice& voice) {
                              std::vector<torch::Tensor> flats;
                              std::vector<Pending> pending;
                              for (int i = 0; i < 40; ++i) {
                                flats.push_back(torch::full({i * 997}, i + group.rank(), torch::kFloat));
                                pending.push_back(group.start_all_reduce(flats.back()));
                              }
                              for (Pending& each : pending) each.wait(within(60s));
                              for (int i = 0; i < 40; ++i) {
                                const auto index = static_cast<std::size_t>(i);
                                if (!torch::equal(flats[index], torch::full({i * 997}, 2 * i + 1, torch::kFloat)))
                                  voice.say(concat(i, " differs; "));
                              }
                            }),
              Each(""));
}

TEST(NetworkGroupTest, SumsThatFollowEachOtherAreNotMixedWhoeverStartsThemEarly) {
  const std::vector<std::int64_t> counts{700'003, 1'300'000, 5, 900'000, 2000, 600'000, 0, 1'000'000};
  const auto outcomes = run_tcp_ranks(3, [&](Group& group, const Voice& voice) {
    const std::size_t ahead = group.rank() == 0 ? counts.size() : static_cast<std::size_t>(group.rank()) + 1;
    std::vector<torch::Tensor> flats;
    std::vector<Pending> pending;
    for (std::size_t done = 0; done < counts.size(); ++done) {
      while (flats.size() < std::min(done + ahead, counts.size())) {
        flats.push_back(stamped(group.rank(), counts[flats.size()], torch::kFloat));
        pending.push_back(group.start_all_reduce(flats.back()));
      }
      pending[done].wait(within(60s));
      if (!torch::equal(flats[done], sum_of_local_group(3, counts[done], torch::kFloat)))
        voice.say(concat(done, " differs; "));
    }
  });
  EXPECT_THAT(outcomes, Each(""));
}

TEST(NetworkGroupTest, AnotherDtypeIsNamedOnAllRanks) {
  const auto outcomes = run_tcp_ranks(3, [](Group& group, const Voice&) {
    group.start_all_reduce(torch::zeros({8}, group.rank() == 1 ? torch::kDouble : torch::kFloat)).wait(within(60s));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("collective #0 differs"), HasSubstr("8 x Float"), HasSubstr("8 x Double"),
                                   HasSubstr("rank 1"))));
}

TEST(NetworkGroupTest, AnotherSizeIsNamedAndNothingIsWrittenBeyondATensor) {
  const auto outcomes = run_tcp_ranks(2, [](Group& group, const Voice&) {
    Pending first = group.start_all_reduce(torch::zeros({1'000'000}));
    Pending second = group.start_all_reduce(torch::zeros({100'000 * (1 + group.rank())}));
    for (Pending* each : {&first, &second}) each->wait(within(60s));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("collective #1 differs"), HasSubstr("all_reduce of 100000 x Float"),
                                   HasSubstr("of 200000 x Float"))));
}

TEST(NetworkGroupTest, AnotherOperationIsNamedAndTheGroupStaysClosed) {
  const auto outcomes = run_tcp_ranks(2, [](Group& group, const Voice& voice) {
    group.barrier(within(60s));
    try {
      if (group.rank() == 0) {
        group.broadcast(torch::zeros({3}), 0, within(60s));
      } else {
        (void)group.all_gather(torch::zeros({3, 2}), within(60s));
      }
    } catch (const RunError& error) {
      voice.say("first: ");
    }
    (void)group.start_all_reduce(torch::zeros({3}));
  });
  EXPECT_THAT(outcomes,
              Each(AllOf(HasSubstr("first: "), HasSubstr("#1 differs"), HasSubstr("broadcast of 3 x Float from rank 0"),
                         HasSubstr("all_gather of 6 x Float in rows of 2"))));
}

TEST(NetworkGroupTest, RowsOfAnotherLengthAreNamed) {
  const auto outcomes = run_tcp_ranks(2, [](Group& group, const Voice&) {
    (void)group.all_gather(torch::zeros({3 - group.rank(), 2 + group.rank()}), within(60s));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("6 x Float in rows of 2"), HasSubstr("6 x Float in rows of 3"))));
}

TEST(NetworkGroupTest, ADtypeThatCannotBeSummedIsRefused) {
  const auto outcomes = run_tcp_ranks(
      1, [](Group& group, const Voice&) { group.start_all_reduce(torch::zeros({8}, torch::kBool)).wait(within(60s)); });
  EXPECT_THAT(outcomes.front(), AllOf(HasSubstr("a tensor [8] of Bool"), HasSubstr("comm::all_reduce(group, tensor)")));
}

TEST(NetworkGroupTest, AKilledRankIsPeerLostOnAllOthers) {
  for (const std::int64_t count : {200, 2'000'000}) {
    const auto outcomes = run_tcp_ranks(3, [&](Group& group, const Voice& voice) {
      try {
        group.start_all_reduce(torch::zeros({count})).wait(within(60s));
        if (group.rank() == 1) ::raise(SIGKILL);
        for (;;) group.start_all_reduce(torch::zeros({count})).wait(within(24h));
      } catch (const PeerLost& lost) {
        voice.say(concat("lost ", lost.peer(), ": "));
        throw;
      }
    });
    const auto named = AllOf(HasSubstr("lost 1: "), HasSubstr(concat("all_reduce of ", count, " x Float")),
                             HasSubstr("rank 1 (process "), HasSubstr("last sign of life"));
    EXPECT_THAT(outcomes[0], named);
    EXPECT_THAT(outcomes[2], named);
  }
}

TEST(NetworkGroupTest, ARankThatIsKilledWhileDataFlowsIsPeerLost) {
  Ranks ranks(3, [](Group& group, const Voice& voice) {
    const std::array<torch::Tensor, 2> flats{torch::zeros({1'000'000}), torch::zeros({1'000'000})};
    Pending first = group.start_all_reduce(flats[0]);
    for (std::size_t i = 1;; ++i) {
      Pending second = group.start_all_reduce(flats[i % 2]);
      std::exchange(first, second).wait(within(24h));
      if (i == 3) voice.say("running ");
    }
  });
  ASSERT_TRUE(ranks->hears(2, "running "));
  ranks->signal(2, SIGKILL);
  for (const int rank : {0, 1})
    EXPECT_THAT(ranks->outcome(rank), AllOf(HasSubstr("rank 2 (process "), HasSubstr("died")));
}

TEST(NetworkGroupTest, AStoppedRankIsNamedAtTheDeadline) {
  for (const std::int64_t count : {200, 2'000'000}) {
    Ranks ranks(3, [&](Group& group, const Voice& voice) {
      group.barrier(within(60s));
      voice.say("met ");
      if (group.rank() == 1) ::raise(SIGSTOP);
      try {
        group.start_all_reduce(torch::zeros({count})).wait(within(1s));
      } catch (const DeadlineExceeded&) {
        voice.say("late: ");
        throw;
      }
    });
    const std::string first = ranks->outcome(0), second = ranks->outcome(2);
    EXPECT_THAT(first + second, HasSubstr("late: "));
    const auto named =
        AllOf(HasSubstr("waited for rank 1 until the deadline"),
              HasSubstr(concat("all_reduce of ", count, " x Float #1")), HasSubstr("began last #0 barrier"));
    EXPECT_THAT(first, named);
    EXPECT_THAT(second, named);
    ranks->signal(1, SIGCONT);
    EXPECT_THAT(ranks->outcome(1), HasSubstr("closed by rank"));
  }
}

TEST(NetworkGroupTest, AbortReachesTheOthersPastARankThatIsStopped) {
  Ranks ranks(3, [](Group& group, const Voice& voice) {
    group.barrier(within(60s));
    if (group.rank() == 1) ::raise(SIGSTOP);
    if (group.rank() == 2) {
      voice.say("here ");
      group.abort("enough");
    }
    for (;;) group.barrier(within(24h));
  });
  for (const int rank : {0, 2}) EXPECT_THAT(ranks->outcome(rank), HasSubstr("closed by rank 2: enough"));
  ranks->signal(1, SIGCONT);  // which broken connection it sees first must not count
  EXPECT_THAT(ranks->outcome(1), HasSubstr("closed by rank 2: enough"));
}

TEST(NetworkGroupTest, AbortFromAnotherThreadEndsAWait) {
  Ranks ranks(2, [](Group& group, const Voice&) {
    if (group.rank() == 1) ::pause();  // the other waits for it
    Pending pending = group.start_all_reduce(torch::zeros({3}));
    const std::jthread aborting([&] { group.abort("enough"); });
    pending.wait(within(24h));
  });
  EXPECT_THAT(ranks->outcome(0), HasSubstr("closed by rank 0: enough"));
}

TEST(NetworkGroupTest, AStopRequestEndsAWait) {
  std::stop_source stop;
  stop.request_stop();
  const auto outcomes = run_tcp_ranks(2, [&](Group& group, const Voice&) {
    if (group.rank() == 0) group.barrier({.deadline = Deadline::infinite(), .stop = stop.get_token()});
    for (;;) group.barrier(within(24h));
  });
  EXPECT_THAT(outcomes, Each(HasSubstr("until it was asked to stop")));
}

TEST(NetworkGroupTest, ARankThatLeavesFailsOnlyWhatNeedsIt) {
  sigset_t go;
  sigemptyset(&go);
  sigaddset(&go, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &go, nullptr);
  StoreProcess store;
  ProcessWorld world(3, [&](int rank, const Voice& voice) {
    auto group = join_tcp(rank, 3, store.port());
    group->barrier(within(60s));
    if (rank == 1) return;
    voice.say("passed ");
    int number = 0;
    sigwait(&go, &number);
    group->barrier(within(24h));
  });
  EXPECT_EQ(world.outcome(1), "");
  for (const int rank : {0, 2}) EXPECT_TRUE(world.hears(rank, "passed "));
  for (const int rank : {0, 2}) world.signal(rank, SIGUSR1);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(world.outcome(rank),
                AllOf(HasSubstr("passed "), HasSubstr("; rank 1 (process "), HasSubstr("left the group")));
  }
}

TEST(NetworkGroupTest, ImpossibleOptionsAreNamedTogether) {
  try {
    (void)make_tcp_group({.rank = 3, .size = 2});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.faults().size(), 2U);
  }
}

TEST(NetworkGroupTest, AnUnknownNetworkIsAConfigError) {
  const HostedStore hosted = host_store({});
  const auto join_by = [&](int rank) {
    const auto store = connect_to_store(hosted.place, within(60s));
    (void)make_tcp_group(
        {.rank = rank, .size = 2, .store = store.get(), .network = "no-such-thing", .limits = within(60s)});
  };
  std::jthread other([&] { EXPECT_THROW(join_by(1), ConfigError); });
  EXPECT_THROW(join_by(0), ConfigError);
}

TEST(NetworkGroupTest, MembersThatAreThreadsMeetInAStoreOfTheirProcess) {
  const std::shared_ptr<Store> store = make_memory_store();
  const auto join = [&](int rank) {
    const auto part = store->part("group");
    const auto group = make_tcp_group({.rank = rank, .size = 2, .store = part.get(), .limits = within(60s)});
    const at::Tensor sum = torch::full({3}, rank + 1.0F);
    group->start_all_reduce(sum).wait(within(60s));
    EXPECT_TRUE(torch::equal(sum, torch::full({3}, 3.0F))) << "of member " << rank;
  };
  const std::jthread other([&] { join(1); });
  join(0);
}

TEST(NetworkGroupBuildTest, WithoutCudaNcclIsAConfigErrorBeforeAnybodyIsMet) {
  if (at::hasCUDA()) GTEST_SKIP() << "there is a device";
  EXPECT_THROW((void)make_nccl_group({.rank = 0, .size = 1}, 0), ConfigError);
}

TEST(NetworkGroupTest, AGroupWithoutAStoreSaysSo) {
  try {
    (void)make_tcp_group({.rank = 0, .size = 2});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no store to meet"));
  }
}

TEST(NetworkGroupTest, AWaitCanBeMadeToExpire) {
  EXPECT_THAT(run_tcp_ranks(2, [](Group& group, const Voice&) { expire_first_member(group); }),
              Each(HasSubstr("closed by rank 0: barrier #1: rank 0 waited for rank 1 until the deadline")));
}

}  // namespace
}  // namespace tandem::comm
