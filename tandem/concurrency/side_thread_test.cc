#include "tandem/concurrency/side_thread.h"

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

namespace tandem {
namespace {

using namespace std::chrono_literals;

class SideThreadTest : public ::testing::TestWithParam<SpinBudget> {};

INSTANTIATE_TEST_SUITE_P(AsleepOrNot, SideThreadTest, ::testing::Values(SpinBudget{}, SpinBudget{20us}),
                         [](const auto& test) { return test.param.limit > 0ns ? "Spinning" : "Asleep"; });

TEST_P(SideThreadTest, TasksRunInOrderOnOneNamedThreadAndTheOwnerSeesTheirWrites) {
  SideThread side("envs 3", GetParam());
  std::vector<int> seen;
  std::set<std::thread::id> ids;
  std::string name;
  for (int i = 0; i < 1000; ++i) {
    auto task = [&, i] {
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
TEST_P(SideThreadTest, OwnersDoNotDisturbEachOther) {
  std::vector<std::jthread> owners;
  std::atomic<int> all{0};
  for (int owner = 0; owner < 4; ++owner) {
    owners.emplace_back([&] {
      SideThread side("side", GetParam());
      int made = 0;
      auto task = [&] { ++made; };
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

TEST_P(SideThreadTest, TheOwnerWorksOnUntilItWaits) {
  SideThread side("side", GetParam());
  ASSERT_TRUE(eventually([&] { return side.idle(); }));
  std::atomic<bool> begun{false}, may_end{false};
  auto task = [&] {
    begun = true;
    while (!may_end) std::this_thread::yield();
  };
  side.start(task);
  EXPECT_TRUE(side.started());
  ASSERT_TRUE(eventually([&] { return begun.load(); })) << "the task is under way, and the owner here";
  std::jthread other([&] {
    EXPECT_TRUE(eventually([&] { return side.owners_asleep() == 1; }));
    may_end = true;
  });
  side.wait();
  EXPECT_TRUE(may_end);
  EXPECT_FALSE(side.started());
}

TEST_P(SideThreadTest, AFailureReachesTheOwnerOnceAndTheThreadGoesOn) {
  SideThread side("side", GetParam());
  auto fails = [] { throw EnvError("the pole broke"); };
  int made = 0;
  auto works = [&] { ++made; };
  side.start(fails);
  EXPECT_THROW(side.wait(), EnvError);
  EXPECT_NO_THROW(side.wait()) << "there is nothing to wait for";
  side.start(works);
  EXPECT_NO_THROW(side.wait());
  EXPECT_EQ(made, 1);
}

TEST_P(SideThreadTest, ItHasOneTaskAtATime) {
  SideThread side("side", GetParam());
  auto nothing = [] {};
  side.start(nothing);
  EXPECT_THROW(side.start(nothing), InvariantError);
  side.wait();
}

TEST_P(SideThreadTest, DestroyedItWaitsForItsTask) {
  std::atomic<bool> ended{false};
  auto task = [&] {
    std::this_thread::sleep_for(20ms);
    ended = true;
    throw EnvError("nobody asks");
  };
  {
    SideThread side("side", GetParam());
    side.start(task);
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace tandem
