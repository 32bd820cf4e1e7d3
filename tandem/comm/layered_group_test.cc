#include "tandem/comm/layered_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/summation_tree.h"
#include "tandem/base/text.h"
#include "tandem/comm/group_shard_sum.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/testing/group_laws.h"
#include "tandem/comm/testing/layers_of_groups.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StrEq;

void expect_bits_of_a_flat_group(Groups layers) {
  const auto outcomes = run_all(std::move(layers), [](Group& group) {
    EXPECT_EQ(faults_of_sums(group, {torch::kFloat, torch::kDouble, torch::kLong}, {0, 1, 1000, 5003}), "");
  });
  EXPECT_THAT(outcomes, Each(StrEq("")));
}

TEST(LayeredGroupTest, AllReduceGivesTheBitsOfAFlatGroupWhereSizesNest) {
  for (const std::vector<int>& sizes : {std::vector<int>{2, 2}, {2, 1}, {3, 3}, {3, 2}, {1, 1}, {2}, {2, 2, 2, 2}}) {
    SCOPED_TRACE(::testing::PrintToString(sizes));
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

class StartedAtOnce : public ::testing::TestWithParam<Outer> {};
INSTANTIATE_TEST_SUITE_P(Groups, StartedAtOnce, ::testing::Values(Outer::kOfLeaders, Outer::kGoesOnAlone));

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
