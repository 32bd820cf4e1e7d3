// Ranks as processes that are killed, stopped and continued while collectives run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/member.h"
#include "tandem/shm/testing/cores.h"
#include "tandem/shm/testing/forbidden_call.h"
#include "tandem/shm/testing/process_world.h"
#include "tandem/shm/testing/tree_sum.h"

namespace tandem::shm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class FailureOn : public ::testing::TestWithParam<Cores> {};
INSTANTIATE_TEST_SUITE_P(Cores, FailureOn, ::testing::Values(Cores::kOfThisMachine, Cores::kOneForAll));

Member join(int rank, int size, const std::string& key) {
  return Member(meet({.rank = rank, .size = size, .key = key, .limits = within(60s)}));
}

// Sums of all kinds, checked, until something ends them. Says `word` when it is well under way.
[[noreturn]] void sum_for_ever(Member& member, const Voice& voice, Clock::duration patience,
                               const char* word = "summing ") {
  constexpr std::int64_t kCount = 100'000;
  const auto memory = member.allocate(kCount * sizeof(float));
  auto* data = reinterpret_cast<float*>(memory.get());
  const std::vector<float> mine = stamped<float>(member.rank(), kCount);
  const std::vector<float> expected = sum_of_stamped<float>(member.size(), kCount);
  for (int round = 0;; ++round) {
    std::copy(mine.begin(), mine.end(), data);
    std::vector<float> own(mine.begin(), mine.begin() + 5000);
    const std::uint64_t first = member.start_all_reduce(data, kCount, kFloat32);
    const std::uint64_t second = member.start_all_reduce(own.data(), std::ssize(own), kFloat32);
    member.finish_all_reduce(first, within(patience));
    member.finish_all_reduce(second, within(patience));
    member.barrier(within(patience));
    TANDEM_CHECK(std::equal(expected.begin(), expected.end(), data), "round ", round);
    TANDEM_CHECK(std::equal(own.begin(), own.end(), expected.begin()), "round ", round);
    if (round == 3) voice.say(word);
  }
}

std::string content_of(const char* file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

bool anything_maps_our_memory() { return content_of("/proc/self/maps").find("memfd:tandem") != std::string::npos; }

TEST_P(FailureOn, AKilledRankIsNamedOnAllOthersLongBeforeTheDeadline) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  for (int kill = 0; kill < 12; ++kill) {
    const int size = 2 + kill % 3, victim = kill % size;
    const std::string key = unique_key("kill");
    ProcessWorld world(size, [&](int rank, const Voice& voice) {
      bind_to(GetParam());
      Member member = join(rank, size, key);
      sum_for_ever(member, voice, 24h);  // the test's own limit ends a wait that only the deadline would
    });
    ASSERT_TRUE(world.hears(victim, "summing"));
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(0, 3000)(random)));
    world.signal(victim, SIGKILL);
    const std::vector<std::string> outcomes = world.outcomes();
    for (int rank = 0; rank < size; ++rank) {
      if (rank == victim) {
        EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)], HasSubstr("signal 9"));
      } else {
        EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)],
                    AllOf(HasSubstr(concat("rank ", victim, " (process ")), HasSubstr("died"),
                          HasSubstr("last sign of life"), HasSubstr("began last #")))
            << "kill " << kill << " of seed " << kSeed;
      }
    }
    EXPECT_THAT(content_of("/proc/net/unix"), Not(HasSubstr(key)));
  }
  EXPECT_FALSE(anything_maps_our_memory());
}

TEST_P(FailureOn, AStoppedRankIsNamedAtTheDeadlineAndChangesNothingWhenItIsContinued) {
  for (const int victim : {0, 1, 2}) {
    const std::string key = unique_key("stop"), rebuilt_key = unique_key("rebuilt");
    ProcessWorld world(3, [&](int rank, const Voice& voice) {
      bind_to(GetParam());
      try {
        Member member = join(rank, 3, key);
        // Ranks without a core each, which others use as well, may be slow without being stopped.
        sum_for_ever(member, voice, rank == victim ? Clock::duration(1h) : 2s);
      } catch (const RunError& error) {
        voice.say(error.what());
      }
      if (rank == victim) return;
      // The others go on in a new group, in new memory, while the stopped one wakes up in the old one.
      Member rebuilt = join(rank > victim ? rank - 1 : rank, 2, rebuilt_key);
      try {
        sum_for_ever(rebuilt, voice, 1h, "\nsumming again ");
      } catch (const PeerLost& error) {
        voice.say(concat("\nafter that: ", error.what()));
      }
    });
    ASSERT_TRUE(world.hears(victim, "summing"));
    world.signal(victim, SIGSTOP);
    const int one = victim == 0 ? 1 : 0, other = victim == 2 ? 1 : 2;
    for (const int rank : {one, other}) {
      ASSERT_TRUE(world.hears(rank, concat("waited for rank ", victim, " until the deadline"))) << world.outcome(rank);
    }
    world.signal(victim, SIGCONT);
    EXPECT_THAT(world.outcome(victim), HasSubstr(concat("waited for rank ", victim, " until the deadline")));
    for (const int rank : {one, other}) ASSERT_TRUE(world.hears(rank, "summing again"));
    // The new group's sums were right all the time; it ends by the death of one of the two.
    world.signal(one, SIGKILL);
    EXPECT_THAT(world.outcome(other), AllOf(HasSubstr("after that: "), Not(HasSubstr("defect"))));
  }
}

// Sums so often, checked, and says when it is under way and when it is done.
void sum_often(Member& member, const Voice& voice, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    float mine = static_cast<float>(member.rank() + round);
    member.finish_all_reduce(member.start_all_reduce(&mine, 1, kFloat32), within(60s));
    const int ranks = member.size();
    TANDEM_CHECK(mine == static_cast<float>(ranks * round + ranks * (ranks - 1) / 2), "round ", round);
    member.barrier(within(60s));
    if (round == 3) voice.say("summing ");
  }
  voice.say("done");
}

TEST_P(FailureOn, RanksThatWaitForAStoppedOneGoOnWithItWhenItIsContinued) {
  const std::string key = unique_key("continue");
  ProcessWorld world(3, [&](int rank, const Voice& voice) {
    bind_to(GetParam());
    Member member = join(rank, 3, key);
    sum_often(member, voice, 3000);
  });
  ASSERT_TRUE(world.hears(1, "summing"));
  for (int stop = 0; stop < 3; ++stop) {
    world.signal(1, SIGSTOP);
    std::this_thread::sleep_for(5ms);  // the others look for a while, and then sleep
    world.signal(1, SIGCONT);
  }
  EXPECT_THAT(world.outcomes(), Each("summing done"));
}

// They find it out by the core that each of them writes down, since no gate was made for them.
TEST(FailureTest, RanksThatMetWithACoreEachAndAreOnOneGiveItToEachOther) {
  const std::string key = unique_key("together");
  ProcessWorld world(2, [&](int rank, const Voice& voice) {
    Member member = join(rank, 2, key);
    bind_to(Cores::kOneForAll);
    sum_often(member, voice, 3000);
  });
  EXPECT_THAT(world.outcomes(), Each("summing done"));
}

TEST(FailureTest, MoreRanksThanCoresProgress) {
  const std::string key = unique_key("crowd");
  constexpr int kRanks = 7;
  ProcessWorld world(kRanks, [&](int rank, const Voice& voice) {
    Member member = join(rank, kRanks, key);
    for (int i = 0; i < 300; ++i) {
      double value = rank;
      member.finish_all_reduce(member.start_all_reduce(&value, 1, kFloat64), within(60s));
      TANDEM_CHECK(2 * value == kRanks * (kRanks - 1));
      member.barrier(within(60s));
    }
    voice.say("done");
    member.barrier(within(60s));
  });
  EXPECT_THAT(world.outcomes(), Each("done"));
}

TEST(FailureTest, AMemoryLimitIsAnErrorOnTheRankThatReachedItAndTheOthersAreTold) {
  const std::string key = unique_key("memory");
  ProcessWorld world(2, [&](int rank, const Voice&) {
    Member member = join(rank, 2, key);
    if (rank == 0) (void)member.allocate(std::uint64_t{1} << 62);
    member.barrier(within(60s));
  });
  EXPECT_THAT(world.outcome(0), HasSubstr("bytes that this machine has"));
  EXPECT_THAT(world.outcome(1), HasSubstr("rank 0"));
}

// As under the seccomp profiles of some containers. The memory has no name there either.
TEST(FailureTest, WithoutMemfdCreateTheRanksShareMemoryAllTheSame) {
  for (const int error : {EPERM, ENOSYS}) {
    const std::string key = unique_key("forbidden");
    ProcessWorld world(2, [&](int rank, const Voice& voice) {
      forbid_call(SYS_memfd_create, error);
      Member member = join(rank, 2, key);
      // An unlinked file of that file system: "/dev/shm/#4711 (deleted)".
      const bool is_nameless = content_of("/proc/self/maps").find("/dev/shm/#") != std::string::npos;
      sum_for_ever(member, voice, 60s, is_nameless ? "nameless " : "elsewhere ");
    });
    for (const int rank : {0, 1}) EXPECT_TRUE(world.hears(rank, "nameless")) << world.said(rank);
  }
}

TEST(FailureTest, ALimitOfAddressesLeavesRoomForTheRegion) {
  const std::string key = unique_key("addresses");
  ProcessWorld world(2, [&](int rank, const Voice& voice) {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::getpagesize()) + (rlim_t{1} << 30);
    const rlimit limit{most, most};
    TANDEM_CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
    Member member = join(rank, 2, key);
    const auto memory = member.allocate(std::uint64_t{64} << 20);
    member.barrier(within(60s));
    voice.say("done");
    member.barrier(within(60s));
  });
  EXPECT_THAT(world.outcomes(), Each("done"));
}

TEST(FailureTest, NothingIsLeftInSharedMemoryOrAmongSockets) {
  const std::string key = unique_key("clean"), before = content_of("/proc/sysvipc/shm");
  ProcessWorld world(2, [&](int rank, const Voice& voice) {
    Member member = join(rank, 2, key);
    const auto memory = member.allocate(1 << 20);
    member.barrier(within(60s));
    voice.say(content_of("/proc/net/unix").find(key) == std::string::npos ? "no name" : "a name");
    for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
      if (file.path().string().find("tandem") != std::string::npos) voice.say(" a file");
    }
    member.barrier(within(60s));
  });
  EXPECT_THAT(world.outcomes(), Each("no name"));
  EXPECT_EQ(content_of("/proc/sysvipc/shm"), before);
  EXPECT_FALSE(anything_maps_our_memory());
}

}  // namespace
}  // namespace tandem::shm
