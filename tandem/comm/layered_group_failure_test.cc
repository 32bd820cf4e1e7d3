#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>

#include "tandem/base/error.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/layered_group.h"
#include "tandem/comm/store/store.h"
#include "tandem/comm/testing/layers_of_groups.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// Aborts as a replica's team does.
TEST(LayeredGroupFailureTest, AnAbortEndsTheOperationsOfAllWithItsReason) {
  for (const int who : {0, 1, 2, 3}) {
    const auto outcomes = run_all(layered({2, 2}, Outer::kOfAll), [&](Group& group) {
      group.barrier(within(60s));
      if (group.rank() == who) group.abort("enough");
      for (;;) group.barrier(within(24h));
    });
    EXPECT_THAT(outcomes, Each(HasSubstr("enough"))) << who;
  }
}

// The leader waits for the other inner group when its own is ended, and hears of it through `outer`.
TEST(LayeredGroupFailureTest, AnAbortInsideEndsTheLeadersWaitForTheOthers) {
  const auto outcomes = run_all(layered({2, 1}, Outer::kOfAll), [&](Group& group) {
    const torch::Tensor flat = torch::ones({10});
    Pending pending = group.start_all_reduce(flat);
    if (group.rank() == 1) group.abort("enough");
    if (group.rank() < 2) pending.wait(within(24h));
    // Rank 2 is busy until it hears of the abort.
    if (group.rank() == 2) wait_for_its_end(group);
  });
  EXPECT_THAT(outcomes[0], HasSubstr("enough"));
  EXPECT_THAT(outcomes[1], HasSubstr("enough"));
}

TEST(LayeredGroupFailureTest, ADifferenceWithinOneGroupIsToldToAll) {
  const auto outcomes = run_all(layered({2, 2}), [](Group& group) {
    group.start_all_reduce(torch::zeros({group.rank() == 3 ? 8 : 9})).wait(within(24h));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("within the group of ranks 2 to 3, counted from 0 here: "),
                                   HasSubstr("all_reduce of 8 x Float"), HasSubstr("all_reduce of 9 x Float"))));
}

TEST(LayeredGroupFailureTest, ADifferenceBetweenTheGroupsIsToldToAll) {
  const auto outcomes = run_all(layered({2, 2}), [](Group& group) {
    group.start_all_reduce(torch::zeros({group.rank() >= 2 ? 8 : 9})).wait(within(24h));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("between the groups of ranks 0 to 1; ranks 2 to 3, counted from 0 here: "),
                                   HasSubstr("all_reduce of 8 x Float"), HasSubstr("all_reduce of 9 x Float"))));
}

TEST(LayeredGroupFailureTest, AMissingMemberEndsTheOthersAtTheDeadlineAndIsNamed) {
  const auto outcomes = run_all(layered({2, 2}), [](Group& group) {
    if (group.rank() == 3) return;
    group.barrier(within(group.rank() == 2 ? 100ms : 24h));
  });
  const auto names_it = AllOf(HasSubstr("within the group of ranks 2 to 3"), HasSubstr("waiting for replica 1 of 2"));
  EXPECT_THAT(outcomes[0], names_it);
  EXPECT_THAT(outcomes[1], names_it);
  EXPECT_THAT(outcomes[2], names_it);
  EXPECT_EQ(outcomes[3], "");
}

// How a member of every kind waits when another does not come, and only `hasty` soon gives up.
using Wait = std::function<void(Group& group, const Limits& limits)>;
const Wait kBarrier = [](Group& group, const Limits& limits) { group.barrier(limits); };
const Wait kAllReduce = [](Group& group, const Limits& limits) {
  group.start_all_reduce(torch::ones({10})).wait(limits);
};

void expect_all_name(Groups groups, const Wait& wait, int missing, int hasty,
                     const ::testing::Matcher<const std::string&>& it) {
  const auto outcomes = run_all(std::move(groups), [&](Group& group) {
    if (group.rank() == missing) return wait_for_its_end(group);
    wait(group, within(group.rank() == hasty ? 50ms : 24h));
  });
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (static_cast<int>(rank) == missing) continue;
    EXPECT_THAT(outcomes[rank], it) << "rank " << rank << ", hasty " << hasty;
  }
}

// Whoever gives up first: it is the one that is missing that is named, and not a leader who only waits for it.
TEST(LayeredGroupFailureTest, WhoeverGivesUpFirstNamesTheMemberThatIsMissing) {
  for (const Wait& wait : {kBarrier, kAllReduce}) {
    for (const Outer outer : {Outer::kOfLeaders, Outer::kGoesOnAlone}) {
      for (const int hasty : {0, 1, 2}) {
        expect_all_name(layered({2, 2}, outer), wait, 3, hasty,
                        AllOf(HasSubstr("within the group of ranks 2 to 3"), HasSubstr("waiting for replica 1 of 2")));
      }
    }
  }
}

TEST(LayeredGroupFailureTest, ALeaderThatIsMissingIsNamedByAll) {
  for (const Outer outer : {Outer::kOfLeaders, Outer::kGoesOnAlone}) {
    for (const int hasty : {0, 1}) {
      expect_all_name(layered({2, 2}, outer), kAllReduce, 2, hasty,
                      AllOf(HasSubstr("between the groups"), HasSubstr("waiting for replica 1 of 2")));
    }
    expect_all_name(layered({2, 2}, outer), kAllReduce, 2, 3,
                    AllOf(HasSubstr("within the group of ranks 2 to 3"), HasSubstr("waiting for replica 0 of 2")));
  }
}

TEST(LayeredGroupFailureTest, AMissingReplicaIsNamedThroughThreeLayers) {
  for (const int hasty : {0, 1, 3, 5, 6}) {
    expect_all_name(three_levels(), kAllReduce, 7, hasty,
                    AllOf(HasSubstr("within the group of ranks 6 to 7"), HasSubstr("waiting for replica 1 of 2")));
  }
}

// A group that says that one of its members is lost.
class LosingGroup final : public ForwardingGroup {
 public:
  LosingGroup(std::unique_ptr<Group> group, int lost) : ForwardingGroup(std::move(group)), lost_(lost) {}
  void barrier(const Limits&) override { throw PeerLost(lost_, "it is gone"); }

 private:
  const int lost_;
};

TEST(LayeredGroupFailureTest, ALostMemberHasItsRankAmongAll) {
  const auto expect_lost = [](Groups groups, int expected) {
    (void)run_all(std::move(groups), [&](Group& group) {
      try {
        group.barrier(within(24h));
        ADD_FAILURE() << "nobody was lost";
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.peer(), expected);
      } catch (const GroupAborted& aborted) {
        EXPECT_THAT(aborted.what(), HasSubstr("it is gone"));
      }
    });
  };
  std::vector<Groups> inner;
  inner.push_back(make_local_group(2));
  inner.push_back(make_local_group(2));
  for (auto& member : inner[1]) member = std::make_unique<LosingGroup>(std::move(member), 1);
  expect_lost(layer(std::move(inner), make_local_group(2)), 3);

  inner.clear();
  inner.push_back(make_local_group(2));
  inner.push_back(make_local_group(2));
  Groups leaders = make_local_group(2);
  for (auto& leader : leaders) leader = std::make_unique<LosingGroup>(std::move(leader), 1);
  expect_lost(layer(std::move(inner), std::move(leaders)), 2);
}

// An outer group of one, at whose barriers nobody comes until it is closed.
class LonelyGroup final : public ForwardingGroup {
 public:
  explicit LonelyGroup(const shm::Voice& voice)
      : ForwardingGroup(std::move(make_local_group(1).front())), voice_(voice) {
    closing_ = ForwardingGroup::on_close([this](const std::string&) { closed_.request_stop(); });
  }
  void barrier(const Limits&) override {
    voice_.say("waits outside; ");
    pause(24h, {.deadline = Deadline::infinite(), .stop = closed_.get_token()});
    ForwardingGroup::barrier(within(60s));
  }

 private:
  const shm::Voice& voice_;
  std::stop_source closed_;
  Listening closing_;
};

// Two processes of one host, which are ranks 4 and 5 of a run; the first of them leads.
class LayeredProcesses {
 public:
  using Work = std::function<void(Group& group, Group& outer, const shm::Voice& voice)>;
  explicit LayeredProcesses(const Work& work)
      : processes_(2, [key = shm::unique_key("layers"), work](int rank, const shm::Voice& voice) {
          auto inner = make_host_group({.rank = rank, .size = 2, .key = key, .limits = within(60s), .names = {4, 5}});
          const auto outer = std::make_shared<LonelyGroup>(voice);
          const auto group =
              make_layered_group(std::move(inner), rank == 0 ? outer : nullptr, within(60s), Names::kOfTheRun);
          work(*group, *outer, voice);
        }) {}
  shm::ProcessWorld* operator->() { return &processes_; }

 private:
  shm::ProcessWorld processes_;
};

TEST(LayeredGroupFailureTest, ADeathInsideEndsTheLeadersWaitOutsideAtOnce) {
  LayeredProcesses ranks([](Group& group, Group&, const shm::Voice&) { group.barrier(within(24h)); });
  ASSERT_TRUE(ranks->hears(0, "waits outside"));
  ranks->signal(1, SIGKILL);
  EXPECT_THAT(ranks->outcome(0), AllOf(HasSubstr("rank 5 (process "), HasSubstr(") died"), HasSubstr("began last #")));
}

// The member that gave up lives on.
TEST(LayeredGroupFailureTest, ADeadlineInsideEndsTheLeadersWaitOutsideAtOnce) {
  LayeredProcesses ranks([](Group& group, Group&, const shm::Voice&) {
    if (group.rank() == 0) return group.barrier(within(24h));
    EXPECT_THROW(group.barrier(within(100ms)), DeadlineExceeded);
    for (;;) ::pause();
  });
  EXPECT_THAT(ranks->outcome(0), HasSubstr("closed by rank 5: barrier #3: rank 5 waited for rank 4"));
}

// The leader is at work of its own all the time.
TEST(LayeredGroupFailureTest, AnEndOutsideEndsTheMembersWaitForTheirLeaderAtOnce) {
  LayeredProcesses ranks([](Group& group, Group& outer, const shm::Voice& voice) {
    if (group.rank() == 1) return group.barrier(within(24h));
    outer.abort("rank 9 died");
    voice.say("closed");
    for (;;) ::pause();
  });
  ASSERT_TRUE(ranks->hears(0, "closed"));
  EXPECT_THAT(ranks->outcome(1), HasSubstr("closed by rank 4: rank 9 died"));
}

TEST(LayeredGroupFailureTest, AGroupWhoseLeadersDoNotMeetEndsAtTheDeadline) {
  Groups leaders = make_local_group(2);
  EXPECT_THAT(
      [&] {
        (void)make_layered_group(std::move(make_local_group(1).front()), std::move(leaders.front()), within(10ms));
      },
      ::testing::ThrowsMessage<DeadlineExceeded>(HasSubstr("while the groups met")));
}

}  // namespace
}  // namespace tandem::comm
