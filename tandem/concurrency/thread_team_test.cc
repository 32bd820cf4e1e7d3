#include "tandem/concurrency/thread_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/concurrency/wait_word.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;

// What the tasks of a team wait at until the team's `on_failure` ends their waits.
class EndlessWait {
 public:
  void wait() {
    (void)event_.wait([this] { return aborted_.load(); }, {});
    throw GroupAborted("another member failed");
  }
  void abort() {
    aborted_ = true;
    event_.notify_all();
  }

 private:
  EventCount event_;
  std::atomic<bool> aborted_{false};
};

TEST(ThreadTeamTest, RunsTheTaskOnceOnEachThreadAndTheCallerSeesItsWrites) {
  for (const SpinBudget spin : {SpinBudget{}, SpinBudget{20us}}) {
    ThreadTeam team("team", 3, spin);
    std::vector<int> times(3, 0);
    for (int round = 1; round <= 1000; ++round) {
      team.run([&](int index) { ++times[static_cast<std::size_t>(index)]; });
      ASSERT_EQ(times, std::vector<int>(3, round));
    }
  }
}

TEST(ThreadTeamTest, EachIndexKeepsItsNamedThread) {
  ThreadTeam team("replica", 2);
  std::vector<std::set<std::thread::id>> ids(2);
  std::vector<std::string> names(2);
  for (int round = 0; round < 10; ++round) {
    team.run([&](int index) {
      ids[static_cast<std::size_t>(index)].insert(std::this_thread::get_id());
      std::array<char, 32> name{};
      pthread_getname_np(pthread_self(), name.data(), name.size());
      names[static_cast<std::size_t>(index)] = name.data();
    });
  }
  EXPECT_EQ(ids[0].size(), 1u);
  EXPECT_EQ(ids[1].size(), 1u);
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(names, (std::vector<std::string>{"replica 0", "replica 1"}));
}

TEST(ThreadTeamTest, AnIdleTeamSleepsAndWakesUp) {
  ThreadTeam team("sleepy", 4);
  ASSERT_TRUE(eventually([&] { return team.sleepers() == 4; }));
  std::atomic<int> ran{0};
  team.run([&](int) { ++ran; });
  EXPECT_EQ(ran, 4);
}

TEST(ThreadTeamTest, RethrowsTheCauseKeepsAllFailuresAndWorksAgain) {
  ThreadTeam team("replica", 3);
  EndlessWait others;
  team.set_on_failure([&](int, const std::string&) { others.abort(); });
  EXPECT_THROW(team.run([&](int index) {
    if (index == 1) throw DataError("bad shard");
    others.wait();  // ended by on_failure
  }),
               DataError);
  std::set<std::string> members;
  for (const auto& failure : team.failures().all()) members.insert(failure.member);
  EXPECT_EQ(members, (std::set<std::string>{"replica 0", "replica 1", "replica 2"}));

  std::atomic<int> ran{0};
  team.run([&](int) { ++ran; });
  EXPECT_EQ(ran, 3);
  EXPECT_TRUE(team.failures().empty());
}

TEST(ThreadTeamTest, OnFailureIsCalledForEachFailure) {
  ThreadTeam team("replica", 4);
  std::atomic<int> calls{0};
  team.set_on_failure([&](int index, const std::string& why) { calls += why == std::to_string(index) ? 1 : 0; });
  EXPECT_THROW(team.run([](int index) { throw RunError(std::to_string(index)); }), RunError);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(team.failures().all().size(), 4u);
}

TEST(ThreadTeamTest, RefusesASecondTaskAtATime) {
  ThreadTeam team("team", 2);
  EXPECT_THROW(team.run([&](int index) {
    if (index == 0) team.run([](int) {});
  }),
               InvariantError);
  team.run([](int) {});
}

TEST(ThreadTeamTest, AThreadThatCannotStartEndsThoseThatDid) {
  arm_fault({.point = "worker.start", .passage = 3, .kind = FaultKind::kThrow});
  EXPECT_THROW(ThreadTeam("team", 3), InjectedFault);
}

// Task 1 hangs until it is let go; the others wait for it, until the watch ends that.
class WatchedTeam {
 public:
  WatchedTeam(std::chrono::milliseconds lasts, std::chrono::seconds grace) {
    team.set_watch({.next_look = [] { return Deadline::after(5ms); },
                    .look = [this] { return ++looks < 3 ? "" : "task 1 hangs"; },
                    .end =
                        [this](const std::string& why) {
                          EXPECT_EQ(why, "task 1 hangs");
                          others.abort();
                        },
                    .grace = grace});
    hang = [this, lasts](int index) {
      if (index == 1) (void)never.pop({}, lasts > 0ms ? Deadline::after(lasts) : Deadline::infinite());
      if (index != 1) others.wait();
    };
  }

  EndlessWait others;
  BoundedQueue<int> never{1};
  std::atomic<int> looks{0};
  std::function<void(int)> hang;
  ThreadTeam team{"replica", 3};  // last: its threads end before what they use
};

TEST(WatchedThreadTeamTest, TasksThatComeBackLateEndTheRunWithTheReason) {
  WatchedTeam watched(100ms, 60s);
  try {
    watched.team.run(watched.hang);
    FAIL();
  } catch (const DeadlineExceeded& error) {
    EXPECT_STREQ(error.what(), "task 1 hangs");
    EXPECT_EQ(dynamic_cast<const HungThread*>(&error), nullptr);
  }
  watched.looks = -1'000'000;
  watched.team.run([](int) {});
}

TEST(WatchedThreadTeamTest, AFailureThatCameFirstIsTheOneToReport) {
  WatchedTeam watched(100ms, 60s);
  EXPECT_THROW(watched.team.run([&](int index) {
    if (index == 0) throw DataError("bad shard");
    watched.hang(index);
  }),
               DataError);
}

TEST(WatchedThreadTeamTest, ATaskThatDoesNotComeBackIsToldOf) {
  WatchedTeam watched(0ms, 0s);
  try {
    watched.team.run(watched.hang);
    ADD_FAILURE() << "it hangs";
  } catch (const HungThread& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("task 1 hangs; "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr(" of 3 threads 'replica' have not come back in time"));
  }
  watched.never.close();
}

TEST(WatchedThreadTeamTest, WhileAllIsWellTasksTakeAsLongAsTheyNeed) {
  WatchedTeam watched(0ms, 0s);
  watched.looks = -1'000'000;
  std::atomic<int> ran{0};
  watched.team.run([&](int) {
    EXPECT_TRUE(eventually([&] { return watched.looks > -1'000'000; }));
    ++ran;
  });
  EXPECT_EQ(ran, 3);
}

TEST(ThreadTeamTest, TakesATaskThatCannotBeCopied) {
  ThreadTeam team("team", 2);
  const auto task = [value = std::make_unique<int>(3)](int) { EXPECT_EQ(*value, 3); };
  team.run(task);
}

}  // namespace
}  // namespace tandem
