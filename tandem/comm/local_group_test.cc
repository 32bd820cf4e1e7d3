#include "tandem/comm/local_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/summation_tree.h"
#include "tandem/comm/group_shard_sum.h"
#include "tandem/comm/testing/group_laws.h"
#include "tandem/comm/testing/layers_of_groups.h"
#include "tandem/comm/testing/member_threads.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Runs `work` as each member of a group of threads; what() of every member's exception, or "" for a member that
// returned.
std::vector<std::string> run_world(int size, const std::function<void(Group&)>& work) {
  const std::vector<std::unique_ptr<Group>> members = make_local_group(size);
  std::vector<std::string> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(*members[static_cast<std::size_t>(rank)]);
      } catch (const std::exception& error) {
        outcomes[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

// Values whose sum depends on the association.
torch::Tensor stamped(int rank, std::int64_t count) {
  return torch::arange(count, torch::kFloat)
      .mul(0.1)
      .add(1.0F / static_cast<float>(rank + 3))
      .mul(std::pow(10.0F, static_cast<float>(rank % 4)));
}

torch::Tensor tree_of(int begin, int end, std::int64_t count) {
  if (end - begin == 1) return stamped(begin, count);
  const int middle = begin + (end - begin + 1) / 2;
  return tree_of(begin, middle, count) + tree_of(middle, end, count);
}

class LocalGroupSizes : public ::testing::TestWithParam<int> {};

TEST_P(LocalGroupSizes, AllReduceGivesEveryMemberTheBitsOfTheTree) {
  const int size = GetParam();
  for (const std::int64_t count : {1, 31, 1000, 5000}) {
    const torch::Tensor expected = tree_of(0, size, count);
    expect_all_return(run_world(size, [&](Group& group) {
      const torch::Tensor flat = group.allocate(count, torch::kFloat, torch::kCPU);
      flat.copy_(stamped(group.rank(), count));
      group.start_all_reduce(flat).wait(within(10s));
      EXPECT_TRUE(torch::equal(flat, expected))
          << "member " << group.rank() << " of " << size << ", " << count << " elements";
    }));
  }
}

TEST_P(LocalGroupSizes, SeveralReductionsMayBeUnderWay) {
  const int size = GetParam();
  expect_all_return(run_world(size, [&](Group& group) {
    std::vector<torch::Tensor> flats;
    std::vector<Pending> pending;
    for (int i = 0; i < 20; ++i) {
      flats.push_back(torch::full({100 + i}, group.rank() + i, torch::kDouble));
      pending.push_back(group.start_all_reduce(flats.back()));
    }
    for (Pending& each : pending) each.wait(within(10s));
    const int ranks = size * (size - 1) / 2;
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(
          torch::equal(flats[static_cast<std::size_t>(i)], torch::full({100 + i}, ranks + size * i, torch::kDouble)));
  }));
}

TEST_P(LocalGroupSizes, GatherAndBroadcastKeepTheOrderOfRanks) {
  const int size = GetParam();
  expect_all_return(run_world(size, [&](Group& group) {
    const std::vector<torch::Tensor> all =
        group.all_gather(torch::full({group.rank() + 1}, group.rank(), torch::kLong), within(10s));
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(torch::equal(all[static_cast<std::size_t>(rank)], torch::full({rank + 1}, rank, torch::kLong)));
    }
    const torch::Tensor value = torch::full({3}, group.rank(), torch::kFloat);
    group.broadcast(value, size - 1, within(10s));
    EXPECT_TRUE(torch::equal(value, torch::full({3}, size - 1, torch::kFloat)));
    group.barrier(within(10s));
  }));
}

INSTANTIATE_TEST_SUITE_P(Sizes, LocalGroupSizes, ::testing::Values(1, 2, 3, 4, 7, 8, 9));

TEST(LocalGroupTest, AMemberWithAnotherOperationIsNamedOnAll) {
  const std::vector<std::string> outcomes = run_world(3, [](Group& group) {
    if (group.rank() == 2) return group.barrier(within(10s));
    const torch::Tensor flat = torch::zeros({8});
    group.start_all_reduce(flat).wait(within(10s));
  });
  for (const std::string& outcome : outcomes)
    EXPECT_THAT(outcome, AllOf(HasSubstr("differs"), HasSubstr("barrier"), HasSubstr("all_reduce of 8")));
}

TEST(LocalGroupTest, AMemberWithAnotherSizeIsNamedOnAll) {
  const std::vector<std::string> outcomes = run_world(2, [](Group& group) {
    const torch::Tensor flat = torch::zeros({8 + group.rank()});
    group.start_all_reduce(flat).wait(within(10s));
  });
  for (const std::string& outcome : outcomes)
    EXPECT_THAT(outcome, AllOf(HasSubstr("8 x Float"), HasSubstr("9 x Float")));
}

TEST(LocalGroupTest, AMissingMemberIsNamedAtTheDeadline) {
  const std::vector<std::string> outcomes = run_world(3, [](Group& group) {
    if (group.rank() != 1) group.barrier(within(50ms));
  });
  EXPECT_THAT(outcomes[0], HasSubstr("waiting for replica 1 of 3"));
  EXPECT_THAT(outcomes[2], HasSubstr("waiting for replica 1 of 3"));
}

TEST(LocalGroupTest, WhoIsMissingAtADeadlineIsAskedFirst) {
  expect_all_return(run_world(3, [](Group& group) { EXPECT_EQ(faults_of_questions(group), ""); }));
}

TEST(LocalGroupTest, AWaitCanBeMadeToExpire) {
  for (const std::string& outcome : run_world(2, [](Group& group) { expire_first_member(group); }))
    EXPECT_THAT(outcome, HasSubstr("barrier #2: the deadline passed while waiting for replica 1 of 2"));
}

TEST(LocalGroupTest, AbortEndsTheWaitOfEveryMemberAndTheGroup) {
  const std::vector<std::string> outcomes = run_world(3, [](Group& group) {
    if (group.rank() == 0) group.abort("replica 0 failed");
    group.barrier(within(10s));
  });
  for (const std::string& outcome : outcomes) EXPECT_THAT(outcome, HasSubstr("replica 0 failed"));
}

TEST(LocalGroupTest, AStoppedWaitEndsTheWaitsOfTheOthers) {
  std::stop_source stop;
  const std::vector<std::string> outcomes = run_world(3, [&](Group& group) {
    if (group.rank() == 2) {
      stop.request_stop();
      return wait_for_its_end(group);
    }
    group.barrier({.deadline = Deadline::after(60s), .stop = group.rank() == 0 ? stop.get_token() : std::stop_token()});
  });
  EXPECT_THAT(outcomes[0], AllOf(HasSubstr("barrier #1: replica 0 waited for replica "),
                                 HasSubstr("2 of 3 until it was asked to stop")));
  EXPECT_EQ(outcomes[1], outcomes[0]);
}

TEST(LocalGroupTest, EveryListenerHearsOfTheEndOnceUntilItsListeningEnds) {
  const std::vector<std::unique_ptr<Group>> members = make_local_group(2);
  std::string told;
  const auto listener = [&told](const std::string& name) {
    return [&told, name](const std::string& why) { told += name + " hears: " + why + "; "; };
  };
  const Listening first = members[1]->on_close(listener("the first"));
  (void)members[1]->on_close(listener("one that listens no more"));
  Listening third = members[1]->on_close(listener("the third"));
  third = members[1]->on_close(listener("the third's successor"));
  members[0]->abort("out of memory");
  members[0]->abort("another reason");
  const Listening late = members[1]->on_close(listener("a late one"));
  EXPECT_EQ(told,
            "the first hears: out of memory; the third's successor hears: out of memory; "
            "a late one hears: out of memory; ");
}

TEST(GroupShardSumTest, EveryTopologyGivesTheBitsOfOneMember) {
  constexpr int kShards = 7;
  const auto numbers = [](int shard) { return std::vector<double>{std::pow(10.0, shard) / 3, 1.0 / (shard + 1)}; };
  std::vector<std::vector<double>> results;
  for (int size = 1; size <= kShards; ++size) {
    expect_all_return(run_world(size, [&](Group& group) {
      const Range mine = subtree_of(kShards, size, group.rank());
      std::vector<std::vector<double>> shards;
      for (int shard = mine.begin; shard < mine.end; ++shard) shards.push_back(numbers(shard));
      GroupShardSum sum(group, 10s, {});
      const std::vector<double> total = sum.sum(shards);
      if (group.rank() == 0) results.push_back(total);
    }));
  }
  for (const std::vector<double>& result : results) EXPECT_EQ(result, results.front());
}

}  // namespace
}  // namespace tandem::comm
