#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/algo/ppo/group_rollout.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;

constexpr std::optional<int> kRestsHere = std::nullopt;

// The replicas of `present` ranks with one each.
std::vector<std::optional<int>> those_of(int groups, int present, int all) {
  std::vector<Range> replicas;
  for (int replica = 0; replica < present; ++replica) replicas.push_back(subtree_of(groups, present, replica));
  return working_groups(replicas, present, all);
}

TEST(WorkingGroupsTest, AllWorkWhenNobodyIsMissing) {
  EXPECT_THAT(those_of(4, 4, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(those_of(5, 2, 2), ElementsAre(0, 1, 2, 3, 4));
}

TEST(WorkingGroupsTest, TheShareOfTheMissingRestsAndTheOthersHaveEquallyMuchToDo) {
  EXPECT_THAT(those_of(4, 3, 4), ElementsAre(0, 1, 2, kRestsHere));  // held: 1, 1, 2
  EXPECT_THAT(those_of(4, 2, 4), ElementsAre(0, kRestsHere, 1, kRestsHere));
  EXPECT_THAT(those_of(4, 1, 4), ElementsAre(0, kRestsHere, kRestsHere, kRestsHere));
  EXPECT_THAT(those_of(8, 3, 4), ElementsAre(0, 1, 2, 3, 4, 5, kRestsHere, kRestsHere));  // held: 2, 2, 4
}

TEST(WorkingGroupsTest, AShareThatIsNotWholeIsRoundedDownButEachReplicaHasAGroup) {
  EXPECT_THAT(those_of(5, 1, 2), ElementsAre(0, 1, kRestsHere, kRestsHere, kRestsHere));
  EXPECT_THAT(those_of(2, 2, 4), ElementsAre(0, 1));
}

}  // namespace
}  // namespace tandem::rl
