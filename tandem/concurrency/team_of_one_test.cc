#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/thread_team.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

class TeamOfOneTest : public ::testing::TestWithParam<SpinBudget> {};

INSTANTIATE_TEST_SUITE_P(AsleepOrNot, TeamOfOneTest, ::testing::Values(SpinBudget{}, SpinBudget{20us}),
                         [](const auto& test) { return test.param.limit > 0ns ? "Spinning" : "Asleep"; });

TEST_P(TeamOfOneTest, TasksRunInOrderOnOneNamedThreadAndTheOwnerSeesTheirWrites) {
  ThreadTeam side("envs 3", GetParam());
  std::vector<int> seen;
  std::set<std::thread::id> ids;
  std::string name;
  for (int i = 0; i < 1000; ++i) {
    auto task = [&, i](int) {
      seen.push_back(i);
      ids.insert(std::this_thread::get_id());
      std::array<char, 32> text{};
      pthread_getname_np(pthread_self(), text.data(), text.size());
      name = text.data();
    };
    side.start(task);
    side.wait();
    ASSERT_EQ(seen.size(), static_cast<std::size_t>(i) + 1);
    ASSERT_EQ(seen.back(), i);
  }
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_NE(*ids.begin(), std::this_thread::get_id());
  EXPECT_EQ(name, "envs 3");
}

// Four owners with a thread each, all at once.
TEST_P(TeamOfOneTest, OwnersDoNotDisturbEachOther) {
  std::vector<std::jthread> owners;
  std::atomic<int> all{0};
  for (int owner = 0; owner < 4; ++owner) {
    owners.emplace_back([&] {
      ThreadTeam side("side", GetParam());
      int made = 0;
      auto task = [&](int) { ++made; };
      for (int i = 0; i < 500; ++i) {
        side.start(task);
        side.wait();
      }
      all += made;
    });
  }
  owners.clear();
  EXPECT_EQ(all, 4 * 500);
}

TEST_P(TeamOfOneTest, TheOwnerWorksOnUntilItWaits) {
  ThreadTeam side("side", GetParam());
  ASSERT_TRUE(eventually([&] { return side.sleepers() == 1; }));
  std::atomic<bool> begun{false}, may_end{false};
  auto task = [&](int) {
    begun = true;
    while (!may_end) std::this_thread::yield();
  };
  side.start(task);
  ASSERT_TRUE(eventually([&] { return begun.load(); })) << "the task is under way, and the owner here";
  std::jthread other([&] {
    EXPECT_TRUE(eventually([&] { return side.callers_asleep() == 1; }));
    may_end = true;
  });
  side.wait();
  EXPECT_TRUE(may_end);
}

TEST_P(TeamOfOneTest, AFailureReachesTheOwnerOnceAndTheThreadGoesOn) {
  ThreadTeam side("side", GetParam());
  auto fails = [](int) { throw EnvError("the pole broke"); };
  int made = 0;
  auto works = [&](int) { ++made; };
  side.start(fails);
  EXPECT_THROW(side.wait(), EnvError);
  EXPECT_NO_THROW(side.wait()) << "there is nothing to wait for";
  side.start(works);
  EXPECT_NO_THROW(side.wait());
  EXPECT_EQ(made, 1);
}

TEST_P(TeamOfOneTest, ItHasOneTaskAtATime) {
  ThreadTeam side("side", GetParam());
  auto nothing = [](int) {};
  side.start(nothing);
  EXPECT_THROW(side.start(nothing), InvariantError);
  side.wait();
}

TEST_P(TeamOfOneTest, DestroyedItWaitsForItsTask) {
  std::atomic<bool> ended{false};
  auto task = [&](int) {
    std::this_thread::sleep_for(20ms);
    ended = true;
    throw EnvError("nobody asks");
  };
  {
    ThreadTeam side("side", GetParam());
    side.start(task);
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace tandem
