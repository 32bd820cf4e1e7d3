#include "tandem/comm/layered_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/summation_tree.h"
#include "tandem/base/text.h"
#include "tandem/comm/group_shard_sum.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/pause.h"
#include "tandem/comm/testing/forwarding_group.h"
#include "tandem/comm/testing/group_laws.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StrEq;

using Groups = std::vector<std::unique_ptr<Group>>;

// Runs `work` as each member; what() of every member's exception, or "" for one that returned. As processes do that
// end with an error, a member that threw is gone for the others.
std::vector<std::string> run_all(Groups groups, const std::function<void(Group&)>& work) {
  std::vector<std::string> outcomes(groups.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        work(*groups[i]);
      } catch (const std::exception& error) {
        outcomes[i] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

enum class Outer { kOfAll, kOfLeaders, kGoesOnAlone };

// So a member's thread carries its collectives on.
class AloneGroup final : public ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;
  [[nodiscard]] bool goes_on_alone() const override { return true; }
};

// The members of groups of these sizes under a group of their leaders.
Groups layer(std::vector<Groups> inner, Groups leaders, Outer who = Outer::kOfLeaders) {
  std::vector<std::jthread> threads;
  Groups all;
  std::size_t count = 0;
  for (const Groups& part : inner) count += part.size();
  all.resize(count);
  std::size_t next = 0;
  for (std::size_t part = 0; part < inner.size(); ++part) {
    std::shared_ptr<Group> leader = std::move(leaders[part]);
    for (std::unique_ptr<Group>& member : inner[part]) {
      const bool has_outer = member->rank() == 0 || who == Outer::kOfAll;
      threads.emplace_back(
          [&all, place = next++, mine = std::move(member), outer = has_outer ? leader : nullptr]() mutable {
            all[place] = make_layered_group(std::move(mine), std::move(outer), within(60s));
          });
    }
  }
  threads.clear();
  return all;
}

Groups layered(const std::vector<int>& sizes, Outer who = Outer::kOfLeaders) {
  std::vector<Groups> inner;
  for (const int size : sizes) inner.push_back(make_local_group(size));
  Groups leaders = make_local_group(static_cast<int>(sizes.size()));
  if (who == Outer::kGoesOnAlone) {
    for (auto& leader : leaders) leader = std::make_unique<AloneGroup>(std::move(leader));
  }
  return layer(std::move(inner), std::move(leaders), who);
}

// Two hosts of two ranks of two replicas each.
Groups three_levels() {
  std::vector<Groups> replicas;
  for (const int count : {2, 2, 2, 2}) replicas.push_back(make_local_group(count));
  return layer(std::move(replicas), layered({2, 2}), Outer::kOfAll);
}

// Does nothing with the group until it is closed.
void wait_for_its_end(Group& group) {
  std::stop_source closed;
  group.on_close([&](const std::string&) { closed.request_stop(); });
  pause(24h, {.deadline = Deadline::infinite(), .stop = closed.get_token()});
  group.on_close({});
}

void expect_bits_of_a_flat_group(Groups layers) {
  const auto outcomes = run_all(std::move(layers), [](Group& group) {
    EXPECT_EQ(faults_of_sums(group, {torch::kFloat, torch::kDouble, torch::kLong}, {0, 1, 1000, 5003}), "");
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

TEST(LayeredGroupTest, AllReduceGivesTheBitsOfAFlatGroupWhereSizesNest) {
  for (const std::vector<int>& sizes : {std::vector<int>{2, 2}, {2, 1}, {3, 3}, {3, 2}, {1, 1}, {2}, {2, 2, 2, 2}}) {
    SCOPED_TRACE(testing::PrintToString(sizes));
    ASSERT_TRUE(nests(sizes));
    expect_bits_of_a_flat_group(layered(sizes));
    expect_bits_of_a_flat_group(layered(sizes, Outer::kGoesOnAlone));
  }
}

TEST(LayeredGroupTest, ThreeLevelsGiveTheBitsOfAFlatGroup) { expect_bits_of_a_flat_group(three_levels()); }

// Each level sums them as floats and rounds once.
TEST(LayeredGroupTest, TypesOfHalfPrecisionHaveTheSameBitsOnAllMembers) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16}) {
    const auto outcomes = run_all(layered({2, 2}), [&](Group& group) {
      const torch::Tensor flat = stamped(group.rank(), 1000, dtype);
      group.start_all_reduce(flat).wait(within(60s));
      const auto of = [&](int rank) { return stamped(rank, 1000, dtype); };
      EXPECT_TRUE(torch::equal(flat, (of(0) + of(1)) + (of(2) + of(3))));
    });
    EXPECT_THAT(outcomes, Each(StrEq("")));
  }
}

TEST(LayeredGroupTest, SizesThatDoNotNestSumInsideFirst) {
  const auto outcomes = run_all(layered({1, 2}), [](Group& group) {
    const torch::Tensor flat = stamped(group.rank(), 1000, torch::kFloat);
    group.start_all_reduce(flat).wait(within(60s));
    const auto of = [](int rank) { return stamped(rank, 1000, torch::kFloat); };
    EXPECT_TRUE(torch::equal(flat, of(0) + (of(1) + of(2))));
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

TEST(LayeredGroupTest, CopiesAndPartsAreThoseOfAnyGroup) {
  for (const std::vector<int>& sizes : {std::vector<int>{2, 2}, {1, 3}, {3}, {2, 1, 3}}) {
    for (const Outer who : {Outer::kOfLeaders, Outer::kGoesOnAlone}) {
      const auto outcomes = run_all(layered(sizes, who), [](Group& group) {
        EXPECT_EQ(faults_of_copies(group), "");
        EXPECT_EQ(faults_of_shared_parts(group), "");
        EXPECT_EQ(faults_of_parts(group), "");
      });
      EXPECT_THAT(outcomes, Each(StrEq("")));
    }
  }
}

TEST(LayeredGroupTest, RanksRunOverTheInnerGroups) {
  const Groups groups = layered({2, 1, 3});
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i]->rank(), static_cast<int>(i));
    EXPECT_EQ(groups[i]->size(), 6);
  }
}

class StartedAtOnce : public testing::TestWithParam<Outer> {};
INSTANTIATE_TEST_SUITE_P(Groups, StartedAtOnce, testing::Values(Outer::kOfLeaders, Outer::kGoesOnAlone));

TEST_P(StartedAtOnce, SeveralAllReduces) {
  const auto outcomes = run_all(layered({2, 3}, GetParam()), [](Group& group) {
    std::vector<torch::Tensor> flats;
    for (int i = 0; i < 5; ++i) flats.push_back(torch::full({1000 * i + 1}, group.rank() + i, torch::kLong));
    const auto expect_sum = [&](int i) {
      EXPECT_TRUE(torch::equal(flats.at(static_cast<std::size_t>(i)), torch::full({1000 * i + 1}, 10 + 5 * i))) << i;
    };
    std::vector<Pending> pending;
    for (int i = 0; i < 3; ++i) pending.push_back(group.start_all_reduce(flats.at(static_cast<std::size_t>(i))));
    pending[0].wait(within(60s));
    expect_sum(0);
    for (int i = 3; i < 5; ++i) pending.push_back(group.start_all_reduce(flats.at(static_cast<std::size_t>(i))));
    for (int i = 1; i < 5; ++i) {
      pending.at(static_cast<std::size_t>(i)).wait(within(60s));
      expect_sum(i);
    }
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

TEST(LayeredGroupTest, WaitsOutOfTheOrderOfStartsAreRefused) {
  for (const Outer who : {Outer::kOfLeaders, Outer::kGoesOnAlone}) {
    const auto outcomes = run_all(layered({1, 1}, who), [](Group& group) {
      const torch::Tensor flat = torch::ones({4}), other = torch::ones({4});
      (void)group.start_all_reduce(flat);
      group.start_all_reduce(other).wait(within(60s));
    });
    EXPECT_THAT(outcomes, Each(HasSubstr("in the order of their start")));
  }
}

TEST(LayeredGroupTest, GoesOnWhileTheMembersDoSomethingElseWhereTheLeadersDo) {
  EXPECT_FALSE(layered({2, 2}).front()->goes_on_alone());
  const Groups groups = layered({2, 2}, Outer::kGoesOnAlone);
  std::vector<torch::Tensor> flats;
  std::vector<Pending> pending;
  for (const auto& group : groups) {
    EXPECT_TRUE(group->goes_on_alone());
    flats.push_back(torch::full({1000}, group->rank() + 1, torch::kLong));
    pending.push_back(group->start_all_reduce(flats.back()));
  }
  // One after the other on one thread: the sum comes about by itself.
  for (std::size_t i = 0; i < groups.size(); ++i) {
    pending[i].wait(within(60s));
    EXPECT_TRUE(torch::equal(flats[i], torch::full({1000}, 10)));
  }
}

TEST(LayeredGroupTest, ACarriedSumNamesTheMemberThatDoesNotCome) {
  const auto outcomes = run_all(layered({2, 2}, Outer::kGoesOnAlone), [](Group& group) {
    group.barrier(within(60s));
    if (group.rank() == 3) {
      wait_for_its_end(group);
      return;
    }
    group.start_all_reduce(torch::ones({10})).wait(within(200ms));
  });
  const auto names_it = AllOf(HasSubstr("within the group of ranks 2 to 3"), HasSubstr("waiting for replica 1 of 2"));
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)], names_it) << rank;
}

TEST(LayeredGroupTest, ACarriedSumEndsWithItsMemberAndWithAnAbort) {
  const auto outcomes = run_all(layered({2, 2}, Outer::kGoesOnAlone), [](Group& group) {
    Pending pending = group.start_all_reduce(torch::ones({10}));
    if (group.rank() == 0) return;  // its group is destroyed while the sum is under way, or after it
    if (group.rank() == 1) group.abort("enough");
    pending.wait(within(24h));
    for (;;) group.barrier(within(24h));
  });
  for (const int rank : {1, 2, 3}) EXPECT_NE(outcomes[static_cast<std::size_t>(rank)], "");
}

TEST(LayeredGroupTest, BroadcastGoesFromAnyRoot) {
  const auto outcomes = run_all(layered({2, 1, 3}), [](Group& group) {
    for (int root = 0; root < group.size(); ++root) {
      const torch::Tensor flat = torch::full({300}, group.rank(), torch::kInt);
      group.broadcast(flat, root, within(60s));
      EXPECT_TRUE(torch::equal(flat, torch::full({300}, root, torch::kInt))) << root << " to " << group.rank();
    }
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

TEST(LayeredGroupTest, GatherKeepsTheOrderOfRanksAndTheShapes) {
  for (const auto dtype : {torch::kFloat, torch::kLong, torch::kByte}) {
    const auto outcomes = run_all(layered({2, 1, 3}), [&](Group& group) {
      const auto rows = [&](int rank) { return torch::full({(rank + 2) % 4 * 10, 3, 2}, rank, dtype); };
      const std::vector<torch::Tensor> all = group.all_gather(rows(group.rank()), within(60s));
      const std::vector<torch::Tensor> scalars = group.all_gather(torch::tensor(group.rank(), dtype), within(60s));
      ASSERT_EQ(all.size(), 6U);
      ASSERT_EQ(scalars.size(), 6U);
      for (int rank = 0; rank < 6; ++rank) {
        EXPECT_TRUE(torch::equal(all[static_cast<std::size_t>(rank)], rows(rank)));
        EXPECT_TRUE(torch::equal(scalars[static_cast<std::size_t>(rank)], torch::tensor(rank, dtype)));
      }
    });
    EXPECT_THAT(outcomes, Each(StrEq("")));
  }
}

TEST(LayeredGroupTest, NumbersAreGatheredInTheOrderOfRanks) {
  const auto outcomes = run_all(layered({2, 1, 3}), [](Group& group) {
    const std::vector<double> mine{0.5 + group.rank(), 10.0 * group.rank()};
    std::vector<double> all(12);
    group.all_gather(mine, all, within(60s));
    for (int rank = 0; rank < 6; ++rank) {
      EXPECT_EQ(all.at(static_cast<std::size_t>(2 * rank)), 0.5 + rank);
      EXPECT_EQ(all.at(static_cast<std::size_t>(2 * rank) + 1), 10.0 * rank);
    }
    group.all_gather(std::span<const double>(), std::span<double>(), within(60s));
    group.barrier(within(60s));
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

// Aborts as a replica's team does.
TEST(LayeredGroupTest, AnAbortEndsTheOperationsOfAllWithItsReason) {
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
TEST(LayeredGroupTest, AnAbortInsideEndsTheLeadersWaitForTheOthers) {
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

TEST(LayeredGroupTest, ADifferenceWithinOneGroupIsToldToAll) {
  const auto outcomes = run_all(layered({2, 2}), [](Group& group) {
    group.start_all_reduce(torch::zeros({group.rank() == 3 ? 8 : 9})).wait(within(24h));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("within the group of ranks 2 to 3, counted from 0 here: "),
                                   HasSubstr("all_reduce of 8 x Float"), HasSubstr("all_reduce of 9 x Float"))));
}

TEST(LayeredGroupTest, ADifferenceBetweenTheGroupsIsToldToAll) {
  const auto outcomes = run_all(layered({2, 2}), [](Group& group) {
    group.start_all_reduce(torch::zeros({group.rank() >= 2 ? 8 : 9})).wait(within(24h));
  });
  EXPECT_THAT(outcomes, Each(AllOf(HasSubstr("between the groups of ranks 0 to 1; ranks 2 to 3, counted from 0 here: "),
                                   HasSubstr("all_reduce of 8 x Float"), HasSubstr("all_reduce of 9 x Float"))));
}

TEST(LayeredGroupTest, AMissingMemberEndsTheOthersAtTheDeadlineAndIsNamed) {
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

// Ranks 0 and 1 came earlier, so their deadline is earlier too; still it is the one that is missing that is named.
TEST(LayeredGroupTest, WhoWaitsForALeaderDoesNotBlameHimForAMissingMember) {
  const auto outcomes = run_all(layered({2, 2}), [](Group& group) {
    if (group.rank() == 3) return;
    group.barrier(within(group.rank() == 2 ? 300ms : 100ms));
  });
  const auto names_it = AllOf(HasSubstr("within the group of ranks 2 to 3"), HasSubstr("waiting for replica 1 of 2"));
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(outcomes[static_cast<std::size_t>(rank)], names_it) << rank;
}

// A group that says that one of its members is lost.
class LosingGroup final : public ForwardingGroup {
 public:
  LosingGroup(std::unique_ptr<Group> group, int lost) : ForwardingGroup(std::move(group)), lost_(lost) {}
  void barrier(const Limits&) override { throw PeerLost(lost_, "it is gone"); }

 private:
  const int lost_;
};

TEST(LayeredGroupTest, ALostMemberHasItsRankAmongAll) {
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
    ForwardingGroup::on_close([this](const std::string&) { closed_.request_stop(); });
  }
  void barrier(const Limits&) override {
    voice_.say("waits outside; ");
    pause(24h, {.deadline = Deadline::infinite(), .stop = closed_.get_token()});
    ForwardingGroup::barrier(within(60s));
  }
  void on_close(std::function<void(const std::string&)> listener) override {
    ForwardingGroup::on_close([this, listener = std::move(listener)](const std::string& why) {
      closed_.request_stop();
      if (listener) listener(why);
    });
  }

 private:
  const shm::Voice& voice_;
  std::stop_source closed_;
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

TEST(LayeredGroupTest, ADeathInsideEndsTheLeadersWaitOutsideAtOnce) {
  LayeredProcesses ranks([](Group& group, Group&, const shm::Voice&) { group.barrier(within(24h)); });
  ASSERT_TRUE(ranks->hears(0, "waits outside"));
  ranks->signal(1, SIGKILL);
  EXPECT_THAT(ranks->outcome(0), AllOf(HasSubstr("rank 5 (process "), HasSubstr(") died"), HasSubstr("began last #")));
}

// The member that gave up lives on.
TEST(LayeredGroupTest, ADeadlineInsideEndsTheLeadersWaitOutsideAtOnce) {
  LayeredProcesses ranks([](Group& group, Group&, const shm::Voice&) {
    if (group.rank() == 0) return group.barrier(within(24h));
    EXPECT_THROW(group.barrier(within(100ms)), DeadlineExceeded);
    for (;;) ::pause();
  });
  EXPECT_THAT(ranks->outcome(0), HasSubstr("closed by rank 5: barrier #3: rank 5 waited for rank 4"));
}

// The leader is at work of its own all the time.
TEST(LayeredGroupTest, AnEndOutsideEndsTheMembersWaitForTheirLeaderAtOnce) {
  LayeredProcesses ranks([](Group& group, Group& outer, const shm::Voice& voice) {
    if (group.rank() == 1) return group.barrier(within(24h));
    outer.abort("rank 9 died");
    voice.say("closed");
    for (;;) ::pause();
  });
  ASSERT_TRUE(ranks->hears(0, "closed"));
  EXPECT_THAT(ranks->outcome(1), HasSubstr("closed by rank 4: rank 9 died"));
}

TEST(LayeredGroupTest, AGroupWhoseLeadersDoNotMeetEndsAtTheDeadline) {
  Groups leaders = make_local_group(2);
  EXPECT_THAT(
      [&] {
        (void)make_layered_group(std::move(make_local_group(1).front()), std::move(leaders.front()), within(10ms));
      },
      testing::ThrowsMessage<DeadlineExceeded>(HasSubstr("while the groups met")));
}

TEST(LayeredGroupTest, ShardSumsAreThoseOfAFlatGroup) {
  const auto sums_of = [](Groups groups) {
    std::vector<double> sums(groups.size());
    const auto outcomes = run_all(std::move(groups), [&](Group& group) {
      GroupShardSum sum(group, 60s, {});
      const std::vector<std::vector<double>> mine{{0.1 + group.rank()}, {std::pow(10.0, group.rank())}};
      sums[static_cast<std::size_t>(group.rank())] = sum.sum(mine).front();
    });
    EXPECT_THAT(outcomes, Each(StrEq("")));
    return sums;
  };
  EXPECT_EQ(sums_of(layered({2, 1})), sums_of(make_local_group(3)));
}

}  // namespace
}  // namespace tandem::comm
