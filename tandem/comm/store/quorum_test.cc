// Which side of a cut network goes on (comm/store/rendezvous.h).
#include <gtest/gtest.h>

#include "tandem/comm/store/rendezvous.h"

namespace tandem::comm {
namespace {

TEST(QuorumTest, MoreThanHalfGoOn) {
  EXPECT_TRUE(has_quorum({.members = 4, .here = 3, .dead = 0, .has_first = false}));
  EXPECT_FALSE(has_quorum({.members = 4, .here = 1, .dead = 0, .has_first = true}));
  EXPECT_TRUE(has_quorum({.members = 5, .here = 3, .dead = 0, .has_first = false}));
  EXPECT_FALSE(has_quorum({.members = 5, .here = 2, .dead = 0, .has_first = true}));
}

TEST(QuorumTest, OfTwoHalvesTheOneWithTheFirstRankGoesOn) {
  EXPECT_TRUE(has_quorum({.members = 4, .here = 2, .dead = 0, .has_first = true}));
  EXPECT_FALSE(has_quorum({.members = 4, .here = 2, .dead = 0, .has_first = false}));
}

// Who is known to have died cannot be on another side: also the last of many goes on.
TEST(QuorumTest, TheDeadCountOnNoSide) {
  EXPECT_TRUE(has_quorum({.members = 2, .here = 1, .dead = 1, .has_first = true}));
  EXPECT_TRUE(has_quorum({.members = 8, .here = 1, .dead = 7, .has_first = true}));
  EXPECT_FALSE(has_quorum({.members = 4, .here = 1, .dead = 1, .has_first = true}));
}

TEST(QuorumTest, OneSideGoesOnAtMostHoweverTheRanksComeApart) {
  constexpr int kRanks = 6;
  int undecided = 0;
  for (unsigned dead = 0; dead < 1U << kRanks; ++dead) {
    for (unsigned side = 0; side < 1U << kRanks; ++side) {
      if ((side & dead) != 0) continue;
      const unsigned other = ((1U << kRanks) - 1) & ~dead & ~side;
      const unsigned alive = side | other;
      const unsigned first = alive & (~alive + 1);
      const auto goes_on = [&](unsigned ranks) {
        return has_quorum({.members = kRanks,
                           .here = __builtin_popcount(ranks),
                           .dead = __builtin_popcount(dead),
                           .has_first = (ranks & first) != 0});
      };
      EXPECT_FALSE(goes_on(side) && goes_on(other)) << concat("dead ", dead, ", sides ", side, " and ", other);
      if (alive != 0 && !goes_on(side) && !goes_on(other)) ++undecided;
    }
  }
  EXPECT_EQ(undecided, 0) << "of two sides one goes on";
}

}  // namespace
}  // namespace tandem::comm
