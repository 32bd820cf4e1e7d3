#include "tandem/base/summation_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tandem/base/error.h"

namespace tandem {
namespace {

constexpr int kMost = 33;

std::string plus(const std::string& left, const std::string& right) { return concat("(", left, "+", right, ")"); }

// The association over a range, written out: "((0+1)+2)".
std::string expression(Range range) {
  return tree_sum(
      range, [](int i) { return std::to_string(i); }, plus);
}

TEST(SummationTreeTest, HalvesAndGivesTheOddOneToTheFirst) {
  EXPECT_EQ(expression({0, 1}), "0");
  EXPECT_EQ(expression({0, 2}), "(0+1)");
  EXPECT_EQ(expression({0, 3}), "((0+1)+2)");
  EXPECT_EQ(expression({0, 5}), "(((0+1)+2)+(3+4))");
  EXPECT_EQ(expression({4, 7}), "((4+5)+6)");
}

TEST(SummationTreeTest, ReplicasPartitionTheShardsInOrder) {
  for (int shards = 1; shards <= kMost; ++shards) {
    for (int replicas = 1; replicas <= shards; ++replicas) {
      int next = 0;
      for (int replica = 0; replica < replicas; ++replica) {
        const Range own = subtree_of(shards, replicas, replica);
        ASSERT_EQ(own.begin, next);
        ASSERT_GT(own.size(), 0);
        next = own.end;
      }
      ASSERT_EQ(next, shards);
    }
  }
}

TEST(SummationTreeTest, PartialSumsOfReplicasGiveTheSumOfOne) {
  for (int shards = 1; shards <= kMost; ++shards) {
    const std::string whole = expression({0, shards});
    for (int replicas = 1; replicas <= shards; ++replicas) {
      const auto partial = [&](int replica) { return expression(subtree_of(shards, replicas, replica)); };
      ASSERT_EQ(tree_sum(Range{0, replicas}, partial, plus), whole) << shards << " shards, " << replicas << " replicas";
    }
  }
}

TEST(SummationTreeTest, RanksOfReplicasNest) {
  for (int shards = 1; shards <= 17; ++shards) {
    for (int ranks = 1; ranks <= shards; ++ranks) {
      const auto of_rank = [&](int rank) {
        const Range own = subtree_of(shards, ranks, rank);
        const int replicas = std::min(own.size(), 2 + rank % 2);
        const auto partial = [&](int replica) { return expression(subtree_of(own, replicas, replica)); };
        return tree_sum(Range{0, replicas}, partial, plus);
      };
      ASSERT_EQ(tree_sum(Range{0, ranks}, of_rank, plus), expression({0, shards})) << shards << " over " << ranks;
    }
  }
}

// All ways to cut `members` into parts of at least one, one after the other.
std::vector<std::vector<int>> ways_to_cut(int members) {
  std::vector<std::vector<int>> ways;
  for (int cuts = 0; cuts < 1 << (members - 1); ++cuts) {
    std::vector<int> parts{1};
    for (int border = 0; border + 1 < members; ++border) {
      if ((cuts >> border & 1) != 0)
        parts.push_back(1);
      else
        ++parts.back();
    }
    ways.push_back(parts);
  }
  return ways;
}

TEST(SummationTreeTest, PartsNestWhenSummingThemFirstIsTheSameSum) {
  for (int members = 1; members <= 9; ++members) {
    for (const std::vector<int>& parts : ways_to_cut(members)) {
      const auto part = [&](int index) {
        const int begin = std::accumulate(parts.begin(), parts.begin() + index, 0);
        return expression({begin, begin + parts[static_cast<std::size_t>(index)]});
      };
      const std::string sum = tree_sum(Range{0, static_cast<int>(parts.size())}, part, plus);
      ASSERT_EQ(nests(parts), sum == expression({0, members})) << sum;
    }
  }
}

TEST(SummationTreeTest, NamesTheCountsThatWork) {
  try {
    (void)subtree_of(4, 6, 0);
    FAIL() << "6 replicas of 4 shards were accepted";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("4 shards"), std::string::npos) << text;
    EXPECT_NE(text.find("1 to 4 replicas"), std::string::npos) << text;
    EXPECT_NE(text.find("at least 6 shards"), std::string::npos) << text;
  }
  EXPECT_THROW((void)subtree_of(4, 0, 0), ConfigError);
  EXPECT_THROW((void)subtree_of(4, 2, 2), InvariantError);
}

TEST(TreeAccumulatorTest, AddsAsTheTreeDoesWithTheBuffersItNames) {
  for (int leaves = 1; leaves <= 200; ++leaves) {
    TreeAccumulator sum(leaves);
    std::vector<std::string> buffers(static_cast<std::size_t>(sum.buffers()));
    int most = 0;
    for (int pass = 0; pass < 2; ++pass) {
      for (int leaf = 0; leaf < leaves; ++leaf) {
        most = std::max(most, sum.next() + 1);
        buffers.at(static_cast<std::size_t>(sum.next())) = std::to_string(leaf);
        sum.add([&](int into, int from) {
          auto& target = buffers.at(static_cast<std::size_t>(into));
          target = plus(target, buffers.at(static_cast<std::size_t>(from)));
        });
      }
      ASSERT_EQ(buffers[0], expression({0, leaves}));
    }
    EXPECT_EQ(most, sum.buffers()) << leaves;
  }
}

}  // namespace
}  // namespace tandem
